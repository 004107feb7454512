// Weights of a training as generation holds them, in memory: from the store that a trainer changes, without a file.
#pragma once

#include "engine/model/inference/inference_weights.h"
#include "engine/model/store/parameter_store.h"

namespace longhaul {

// Of that type, without any: to be filled. With a device for its memory, which `whole` counts as well; null: nobody
// does, and of the host.
InferenceWeights weights_to_fill(DType dtype, Device* device, MemoryAccount* whole);

// Into `weights` (its dtype and, where it has one, its device), as they compute now: what an adapter makes of them,
// where there is one. The store has whole parameters, or, of ranks that compute together (inference_ranks.h), this
// one's: parts by tp, of experts by etp as large as tp, and stages without vp. No ZeRO 3, no ep.
//
// Where the store lies on that device, computes in that dtype and has no adapter, nothing is copied: the weights are
// the store's own memory, which costs none, and they are good until the store changes or goes. With an adapter they are
// copies, made on the device: one more model there while they live. Everything else is copied as well, a store of the
// host's by way of the host. What stands before a text, and routers, which are f32, are always copies
// (weights_always_copied in inference_memory.h).
Result<InferenceWeights> inference_weights_of(const ComputeContext& context, const ParameterStore& store,
                                              InferenceWeights weights);

}  // namespace longhaul
