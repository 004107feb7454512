#include "engine/align/scores/bradley_terry.h"

#include "engine/align/logistic.h"

namespace longhaul {

PairScoreLoss bradley_terry_loss(double chosen, double rejected, double margin, double center_weight) {
  const double x = chosen - rejected - margin, sum = chosen + rejected, slope = sigmoid(-x);
  return {minus_log_sigmoid(x) + center_weight * sum * sum, -slope + 2 * center_weight * sum,
          slope + 2 * center_weight * sum};
}

}  // namespace longhaul
