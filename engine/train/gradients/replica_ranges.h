// Of which weights the ranks of a replica have an addend of the gradient each.
#pragma once

#include <utility>
#include <vector>

#include "engine/model/adapter/adapted_weights.h"
#include "engine/model/llama.h"

namespace longhaul {

// In the flat order of what is trained.
struct ReplicaRanges {
  std::vector<std::pair<std::int64_t, std::int64_t>> tied;   // an embedding at both ends of a pipeline
  std::vector<std::pair<std::int64_t, std::int64_t>> split;  // over a tp group: norms, and an adapter's whole matrices
  std::vector<std::pair<std::int64_t, std::int64_t>> split_experts;  // over an etp group: those of experts
};

// adapted: null where the models' weights are trained.
ReplicaRanges replica_ranges(const std::vector<Llama*>& stages, const AdaptedWeights* adapted);

// What a backward of a model writes to, so that `own`, of what is trained, is filled.
GradientTarget target_of_model(AdaptedWeights* adapted, GradientTarget own);

}  // namespace longhaul
