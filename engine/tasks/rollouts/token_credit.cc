#include "engine/tasks/rollouts/token_credit.h"

#include <cmath>

#include "base/text/text.h"
#include "engine/align/critic/generalized_advantage.h"
#include "engine/align/critic/token_reward.h"
#include "engine/align/teacher_advantage.h"

namespace longhaul {

void credit_tokens(const PpoSettings& settings, double beta, std::span<Rollout> rollouts, RolloutFigures& figures) {
  for (Rollout& rollout : rollouts) {
    rollout.advantages.assign(rollout.drawn.size(), 0.0), rollout.returns.assign(rollout.drawn.size(), 0.0);
    if (!rollout.reward.value) continue;
    const std::vector<double> rewards =
        token_rewards(settings, beta, rollout.drawn, rollout.reference, *rollout.shaped_reward(), &figures.divergence);
    TokenAdvantages credit = generalized_advantages(settings.gamma, settings.lambda, rewards, rollout.values);
    rollout.advantages = std::move(credit.advantages), rollout.returns = std::move(credit.returns);
    for (const double advantage : rollout.advantages) figures.advantages.add(advantage, 1);
    for (const double value : rollout.returns) figures.returns.add(value, 1);
  }
}

void whiten_advantages(std::span<Rollout> rollouts, const AdvantageSums& sums) {
  for (Rollout& rollout : rollouts)
    if (rollout.reward.value)
      for (double& advantage : rollout.advantages) advantage = normalised_advantage(advantage, sums);
}

Status credit_by_teacher(std::span<Rollout> rollouts) {
  for (Rollout& rollout : rollouts) {
    for (const double number : rollout.reference)
      if (!std::isfinite(number))
        return make_error(ErrorCode::invalid_input,
                          format("the teacher gives a token of an answer the log-probability {}", number),
                          "look for infinite or missing weights in the model of inputs.teacher");
    rollout.advantages = teacher_advantages(rollout.drawn, rollout.reference);
  }
  return {};
}

// What is left of the returns is the advantages.
double explained_variance(const RolloutFigures& figures) {
  const auto spread = [](const AdvantageSums& sums) { return sums.squares - sums.sum * sums.sum / sums.tokens; };
  if (figures.returns.tokens < 2 || !(spread(figures.returns) > 0)) return 0;
  return 1 - spread(figures.advantages) / spread(figures.returns);
}

}  // namespace longhaul
