#include "contracts/settings/groups/trace.h"

namespace longhaul {

const FieldTable<TraceSettings>& trace_fields() {
  using T = TraceSettings;
  static const auto table =
      FieldTable<T>()
          .field("first_step", &T::first_step, {.help = "step at which the trace begins", .min = 1, .speed_only = true})
          .field("steps", &T::steps,
                 {.unit = "steps",
                  .help = "write what every rank computes and sends in so many steps, as trace/rank-N.json of the "
                          "stage, for Perfetto; 0 never",
                  .min = 0,
                  .max = 1000,
                  .speed_only = true})
          .field("kernels", &T::kernels,
                 {.help =
                      "time every kernel of a GPU (CUPTI): how long ranks compute is then reported without NCCL's, and "
                      "the longest kernels every 100 steps",
                  .speed_only = true});
  return table;
}

}  // namespace longhaul
