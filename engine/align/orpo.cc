// ORPO, Hong et al. 2024, equations 4 to 7, whose lambda is beta; no reference model. c and r are per token:
//   odds(p) = p / (1 - p)
//   loss    = -c - beta log sigmoid(log(odds(exp c) / odds(exp r)))
// Its first term is the cross-entropy of the chosen answer's tokens. TRL takes that of the prompt's tokens as well.
#include <algorithm>
#include <cmath>

#include "engine/align/logistic.h"
#include "engine/align/pair_loss.h"

namespace longhaul {

namespace {

struct LogOdds {
  double value, slope;  // by the log-probability
};
LogOdds log_odds(double log_probability) {
  // A probability of one has no odds; f32 knows none between this and one.
  const double p = std::min(log_probability, -0x1p-24);
  return {p - std::log(-std::expm1(p)), -1 / std::expm1(p)};
}

}  // namespace

PairLoss orpo_loss(const AlignSettings& settings, const PairScores& scores) {
  const LogOdds chosen = log_odds(scores.chosen), rejected = log_odds(scores.rejected);
  const double ratio = chosen.value - rejected.value, slope = -settings.beta * sigmoid(-ratio);
  return {-scores.chosen + settings.beta * minus_log_sigmoid(ratio), slope * chosen.slope - 1, -slope * rejected.slope};
}

}  // namespace longhaul
