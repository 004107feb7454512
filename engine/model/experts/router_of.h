// The router's operation that a model's shape asks for.
#pragma once

#include "contracts/model/model_shape.h"
#include "engine/ops/experts/moe_router.h"

namespace longhaul {

inline RouterShape router_of(const ModelShape& shape, std::int64_t tokens) {
  RouterShape router;
  router.tokens = tokens, router.experts = shape.num_local_experts, router.top_k = shape.num_experts_per_tok;
  router.score = shape.router_score == "sigmoid"   ? RouterScore::sigmoid
                 : shape.router_score == "softmax" ? RouterScore::softmax_selected
                                                   : RouterScore::softmax_all;
  router.scaling = static_cast<float>(shape.routed_scaling_factor);
  router.groups = shape.n_group, router.groups_kept = shape.topk_group;
  return router;
}

}  // namespace longhaul
