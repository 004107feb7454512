// Direct Preference Optimization, Rafailov et al. 2023, equation 7, with the label smoothing of conservative DPO
// (Mitchell 2023), of whichever implicit reward the divergence has (implicit_reward.h); of reverse KL
//   x    = beta ((c - c_ref) - (r - r_ref))
//   loss = -(1 - e) log sigmoid(x) - e log sigmoid(-x)
// With sft_weight (preference_objective.h) it is the loss of Pang et al. 2024, "Iterative Reasoning Preference
// Optimization", equation 1, which TRL calls RPO.
#include "engine/align/implicit_reward.h"
#include "engine/align/logistic.h"

namespace longhaul {

PairLoss dpo_loss(const AlignSettings& settings, const PairScores& scores) {
  const RewardDifference difference = reward_difference(settings, scores);
  const double x = settings.beta * difference.value(), e = settings.label_smoothing;
  return difference.loss_of((1 - e) * minus_log_sigmoid(x) + e * minus_log_sigmoid(-x),
                            -settings.beta * ((1 - e) * sigmoid(-x) - e * sigmoid(x)));
}

}  // namespace longhaul
