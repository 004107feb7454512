// Robust DPO, Chowdhury et al. 2024, "Provably Robust DPO", equation 12: unbiased where a share e < 1/2 of the labels
// is wrong, at random. With x as in dpo.cc
//   loss = (-(1 - e) log sigmoid(x) + e log sigmoid(-x)) / (1 - 2 e)
#include "engine/align/implicit_reward.h"
#include "engine/align/logistic.h"

namespace longhaul {

PairLoss robust_dpo_loss(const AlignSettings& settings, const PairScores& scores) {
  const RewardDifference difference = reward_difference(settings, scores);
  const double x = settings.beta * difference.value(), e = settings.label_smoothing, unbiased = 1 / (1 - 2 * e);
  return difference.loss_of(unbiased * ((1 - e) * minus_log_sigmoid(x) - e * minus_log_sigmoid(-x)),
                            -settings.beta * unbiased * ((1 - e) * sigmoid(-x) + e * sigmoid(x)));
}

}  // namespace longhaul
