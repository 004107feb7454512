// Identity Preference Optimization, Azar et al. 2023, equation 17, whose tau is beta:
//   loss = ((c - c_ref) - (r - r_ref) - 1 / (2 beta))^2
// Log-probabilities per token (length_normalized) are what the paper's results are of, as its authors wrote to TRL;
// sums are the formula as it is printed, and what OpenRLHF and NeMo-Aligner take.
#include "engine/align/implicit_reward.h"

namespace longhaul {

PairLoss ipo_loss(const AlignSettings& settings, const PairScores& scores) {
  const RewardDifference difference = reward_difference(settings, scores);
  const double off = difference.value() - 1 / (2 * settings.beta);
  return difference.loss_of(off * off, 2 * off);
}

}  // namespace longhaul
