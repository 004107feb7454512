#include "engine/align/critic/value_objective.h"

#include <algorithm>
#include <numeric>

#include "engine/align/critic/value_loss.h"
#include "engine/align/policy_objective.h"

namespace longhaul {

ObjectiveSums ValueObjective::sums_of(const JudgedBatch& batch, std::span<const float> token_losses,
                                      std::span<float> weights) {
  ObjectiveSums sums;
  const auto length = static_cast<std::size_t>(batch.length);
  std::vector<double> values, drawn, returns;
  std::vector<std::size_t> places;
  for (std::size_t sequence = 0; sequence < static_cast<std::size_t>(batch.sequences); ++sequence) {
    values.clear(), drawn.clear(), returns.clear(), places.clear();
    for (std::size_t t = sequence * length; t < (sequence + 1) * length; ++t) {
      if (batch.targets[t] < 0) continue;
      places.push_back(t), values.push_back(static_cast<double>(token_losses[t]));
      drawn.push_back(static_cast<double>(batch.values[t])), returns.push_back(static_cast<double>(batch.returns[t]));
    }
    const ValueLoss loss = value_loss(bound_, values, drawn, returns);
    const double scale = batch.per_sequence[sequence * AnswerPlace::fields + AnswerPlace::token_scale];
    const double tokens = std::max(1.0, static_cast<double>(places.size()));
    sums.loss += scale * loss.loss, sums.count += 1;
    sums.extra[0] += loss.clipped / tokens;
    sums.extra[1] += std::accumulate(values.begin(), values.end(), 0.0) / tokens;
    for (std::size_t i = 0; i < places.size(); ++i) weights[places[i]] = static_cast<float>(scale * loss.slopes[i]);
  }
  return sums;
}

}  // namespace longhaul
