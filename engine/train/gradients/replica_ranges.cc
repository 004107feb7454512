#include "engine/train/gradients/replica_ranges.h"

namespace longhaul {

ReplicaRanges replica_ranges(const std::vector<Llama*>& stages, const AdaptedWeights* adapted) {
  ReplicaRanges ranges;
  if (adapted) {
    ranges.split = adapted->partial_gradients(false), ranges.split_experts = adapted->partial_gradients(true);
    return ranges;
  }
  for (const Llama* stage : stages) {
    ranges.tied.push_back(stage->tied_gradient());
    for (const auto& range : stage->partial_gradients()) ranges.split.push_back(range);
  }
  return ranges;
}

GradientTarget target_of_model(AdaptedWeights* adapted, GradientTarget own) {
  return adapted ? adapted->target(std::move(own)) : own;
}

}  // namespace longhaul
