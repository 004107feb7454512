// SimPO, Meng et al. 2024, equation 6, with the label smoothing that TRL gives it; no reference model. c and r are per
// token, gamma is reward_margin:
//   x    = beta (c - r) - gamma
//   loss = -(1 - e) log sigmoid(x) - e log sigmoid(-x)
#include "engine/align/logistic.h"
#include "engine/align/pair_loss.h"

namespace longhaul {

PairLoss simpo_loss(const AlignSettings& settings, const PairScores& scores) {
  const double x = settings.beta * (scores.chosen - scores.rejected) - settings.reward_margin;
  const double e = settings.label_smoothing, slope = -settings.beta * ((1 - e) * sigmoid(-x) - e * sigmoid(x));
  return {(1 - e) * minus_log_sigmoid(x) + e * minus_log_sigmoid(-x), slope, -slope};
}

}  // namespace longhaul
