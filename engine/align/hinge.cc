// The hinge of SLiC (Zhao et al. 2023, "SLiC-HF", equation 1) on implicit rewards, as in RSO (Liu et al. 2023, equation
// 9), where beta is gamma:
//   loss = max(0, 1 - beta ((c - c_ref) - (r - r_ref)))
#include <algorithm>

#include "engine/align/implicit_reward.h"

namespace longhaul {

PairLoss hinge_loss(const AlignSettings& settings, const PairScores& scores) {
  const RewardDifference difference = reward_difference(settings, scores);
  const double missing = 1 - settings.beta * difference.value();
  return difference.loss_of(std::max(0.0, missing), missing > 0 ? -settings.beta : 0);
}

}  // namespace longhaul
