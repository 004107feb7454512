#include "contracts/settings/curate.h"

namespace longhaul {

const FieldTable<CurateSettings>& curate_fields() {
  using C = CurateSettings;
  static const auto table =
      FieldTable<C>()
          .field("languages", &C::languages, {.help = "keep only these (ISO 639 codes); empty keeps all"})
          .field(
              "heldout_bytes", &C::heldout_bytes,
              {.unit = "bytes", .help = "text kept apart for evaluation, whole pages in all their languages", .min = 0})
          .field("seed", &C::seed, {.help = "chooses the held-out pages", .min = 0});
  return table;
}

}  // namespace longhaul
