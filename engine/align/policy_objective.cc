#include "engine/align/policy_objective.h"

#include <algorithm>

#include "contracts/settings/stages/alignment.h"

namespace longhaul {

std::vector<std::string> PolicyObjective::extra_names() const {
  std::vector<std::string> names;
  if (!has_teacher(settings_.method)) names = {"reward", "accuracy"};
  names.insert(names.end(), {"kl", "clip_fraction"});
  if (settings_.rollout.importance_cap > 0) names.emplace_back("importance_ratio");
  return names;
}

std::string PolicyObjective::largest_name() const {
  return settings_.rollout.importance_cap > 0 ? "importance_ratio_max" : "";
}

ObjectiveSums PolicyObjective::sums_of(const JudgedBatch& batch, std::span<const float> token_losses,
                                       std::span<float> weights) {
  ObjectiveSums sums;
  const auto length = static_cast<std::size_t>(batch.length);
  std::vector<double> model, drawn, reference, advantages;
  std::vector<std::size_t> places;
  for (std::size_t sequence = 0; sequence < static_cast<std::size_t>(batch.sequences); ++sequence) {
    model.clear(), drawn.clear(), reference.clear(), advantages.clear(), places.clear();
    for (std::size_t t = sequence * length; t < (sequence + 1) * length; ++t) {
      if (batch.targets[t] < 0) continue;
      places.push_back(t), model.push_back(-static_cast<double>(token_losses[t]));
      drawn.push_back(static_cast<double>(batch.drawn[t]));
      if (!batch.reference.empty()) reference.push_back(static_cast<double>(batch.reference[t]));
      if (!batch.advantages.empty()) advantages.push_back(static_cast<double>(batch.advantages[t]));
    }
    const double* of = &batch.per_sequence[sequence * AnswerPlace::fields];
    const PolicyLoss loss = policy_loss(settings_, {model, drawn, reference, of[AnswerPlace::advantage], advantages});
    const double scale = of[AnswerPlace::token_scale], tokens = std::max(1.0, static_cast<double>(places.size()));
    sums.loss += scale * loss.loss;
    sums.count += 1;
    std::size_t extra = 0;
    if (!has_teacher(settings_.method))
      sums.extra[extra++] += of[AnswerPlace::reward], sums.extra[extra++] += of[AnswerPlace::right];
    sums.extra[extra++] += loss.divergence / tokens, sums.extra[extra++] += loss.clipped / tokens;
    if (settings_.rollout.importance_cap > 0) sums.extra[extra++] += loss.importance / tokens;
    sums.largest = std::max(sums.largest, loss.importance_max);
    // d log p / d(token loss) = -1.
    for (std::size_t i = 0; i < places.size(); ++i) weights[places[i]] = static_cast<float>(-scale * loss.slopes[i]);
  }
  return sums;
}

}  // namespace longhaul
