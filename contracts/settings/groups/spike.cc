#include "contracts/settings/groups/spike.h"

namespace longhaul {

const FieldTable<SpikeSettings>& spike_fields() {
  using S = SpikeSettings;
  static const auto table =
      FieldTable<S>()
          .field(
              "action", &S::action,
              {.help = "of a step whose loss or gradient is no number or a spike: stop; skip its update; or roll back "
                       "to the last checkpoint and leave out the data since",
               .choices = {"stop", "skip", "rollback"}})
          .field("sigma", &S::sigma,
                 {.help = "a spike lies more than this many standard deviations above the mean of the window; 0: not "
                          "looked at",
                  .min = 0})
          .field("ratio", &S::ratio,
                 {.help = "a spike is more than this many times the mean of the window; 0: not looked at", .min = 0})
          .field("window", &S::window,
                 {.unit = "steps",
                  .help = "how many steps before are compared with; half of them must have been",
                  .min = 2,
                  .max = 100000})
          .field("budget", &S::budget,
                 {.help = "so many skips or rollbacks in budget_steps are allowed; one more stops the training",
                  .min = 0,
                  .max = 1e6})
          .field("budget_steps", &S::budget_steps, {.unit = "steps", .help = "see budget", .min = 1, .max = 1e12});
  return table;
}

}  // namespace longhaul
