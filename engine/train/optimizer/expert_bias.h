// Balance without an auxiliary loss: what a step adds to the bias of a router's selection
// (engine/ops/experts/moe_router.h, moe_bias_update), where the masters lie.
#pragma once

#include <span>

#include "engine/model/llama.h"
#include "engine/model/store/parameter_store.h"

namespace longhaul {

// counts [experts]: of the step's tokens in this layer, on the host. Of the layers of these stages.
void step_expert_bias(const ComputeContext& context, ParameterStore& store, std::span<Llama* const> stages, int layer,
                      float rate, std::span<const float> counts);

}  // namespace longhaul
