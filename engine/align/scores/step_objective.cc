#include "engine/align/scores/step_objective.h"

#include "engine/align/scores/step_loss.h"

namespace longhaul {

ObjectiveSums StepObjective::sums_of(const JudgedBatch& batch, std::span<const float> numbers,
                                     std::span<float> weights) {
  ObjectiveSums sums;
  for (std::size_t t = 0; t < batch.targets.size(); ++t) {
    if (batch.targets[t] < 0) continue;
    const auto number = static_cast<double>(numbers[t]), label = static_cast<double>(batch.returns[t]);
    const StepLoss loss = step_loss(number, label);
    sums.loss += loss.loss, sums.count += 1;
    sums.extra[0] += (number > 0) == (label >= 0.5) ? 1 : 0;
    sums.extra[1] += number > 0 ? 1 : 0;
    weights[t] = static_cast<float>(loss.slope);
  }
  return sums;
}

}  // namespace longhaul
