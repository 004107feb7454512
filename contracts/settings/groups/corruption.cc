#include "contracts/settings/groups/corruption.h"

namespace longhaul {

const FieldTable<CorruptionSettings>& corruption_fields() {
  using C = CorruptionSettings;
  static const auto table =
      FieldTable<C>()
          .field(
              "check", &C::check,
              {.help = "what is looked at: contributions to sums of gradients on their way between ranks; replay does "
                       "so, and lets another rank compute a micro-batch again",
               .choices = {"off", "contributions", "replay"},
               .speed_only = true})
          .field("replay_every", &C::replay_every,
                 {.unit = "steps", .help = "with check = \"replay\", how often", .min = 1, .speed_only = true});
  return table;
}

}  // namespace longhaul
