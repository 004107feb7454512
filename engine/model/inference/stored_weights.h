// Weights of a training as generation holds them, in memory: from the store that a trainer changes, without a file.
#pragma once

#include "engine/model/inference/inference_weights.h"
#include "engine/model/store/parameter_store.h"

namespace longhaul {

// Copies into `weights` (its dtype and, where it has one, its device), as they compute now: what an adapter makes of
// them, where there is one. The store has whole parameters (no ZeRO 3, no tp, no pp, no ep). Models with experts are
// refused on GPUs (unsupported).
Result<InferenceWeights> inference_weights_of(const ComputeContext& context, const ParameterStore& store,
                                              InferenceWeights weights);

}  // namespace longhaul
