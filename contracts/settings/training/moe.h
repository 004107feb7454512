// How a training balances the experts of a mixture (group `moe` of the stages that train). What changes the model's
// output is part of its shape; these change only what the router learns, and which tokens are dropped meanwhile.
//
// Losses and capacity are defined over the micro-batch, in every layout: the auxiliary losses of all layers are added
// to the mean loss of its tokens. Formulas: engine/ops/experts/moe_balance.h, moe_dispatch.h, moe_router.h.
#pragma once

#include <string>

#include "contracts/layout/parallel_dims.h"
#include "contracts/model/model_shape.h"
#include "contracts/schema/field_table.h"

namespace longhaul {

struct MoeSettings {
  std::string balance = "aux";              // aux | bias | sinkhorn | none
  double aux_loss_coef = 0.01;              // with balance = aux
  std::string aux_loss = "megatron";        // or hugging_face: top_k times as much, over all layers' tokens at once
  double z_loss_coef = 0;                   // 0: none
  double bias_rate = 1e-3;                  // with balance = bias: what a step adds to or takes from an expert's bias
  double capacity_factor = 0;               // 0: no token is dropped
  std::string drop_policy = "probability";  // or position
};
const FieldTable<MoeSettings>& moe_fields();

// Settings that do not go with the model or the layout; the error names them. A model without experts asks for nothing.
Status check_moe_settings(const MoeSettings& settings, const ModelShape& shape, const ParallelDims& dims);

}  // namespace longhaul
