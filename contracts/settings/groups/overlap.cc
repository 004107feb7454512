#include "contracts/settings/groups/overlap.h"

namespace longhaul {

const FieldTable<OverlapSettings>& overlap_fields() {
  using O = OverlapSettings;
  static const auto table =
      FieldTable<O>()
          .field("gradients", &O::gradients,
                 {.help = "sum gradients over the data-parallel ranks while the backward pass goes on",
                  .speed_only = true})
          .field("weights", &O::weights,
                 {.help = "with ZeRO, gather weights while others are in use", .speed_only = true})
          .field("context", &O::context,
                 {.help = "with cp_attention = \"ring\", pass keys and values on while they are in use",
                  .speed_only = true})
          .field("pipeline", &O::pipeline,
                 {.help = "pass activations and their gradients between pipeline stages beside computation",
                  .speed_only = true})
          .field("tensor", &O::tensor,
                 {.help = "with tp, gather and sum rows while others are computed", .speed_only = true})
          .field("experts", &O::experts,
                 {.help = "with ep or etp, pass tokens to experts and back while others are computed",
                  .speed_only = true});
  return table;
}

}  // namespace longhaul
