#include "engine/align/critic/value_loss.h"

#include <algorithm>

namespace longhaul {

ValueLoss value_loss(double bound, std::span<const double> values, std::span<const double> drawn_values,
                     std::span<const double> returns) {
  ValueLoss sums;
  for (std::size_t t = 0; t < values.size(); ++t) {
    const double error = values[t] - returns[t];
    const double moved = std::clamp(values[t] - drawn_values[t], -bound, bound);
    const double bounded = bound > 0 ? drawn_values[t] + moved - returns[t] : error;
    const bool clipped = bounded * bounded > error * error;
    sums.loss += (clipped ? bounded * bounded : error * error) / 2;
    sums.clipped += clipped ? 1 : 0;
    sums.slopes.push_back(clipped ? 0 : error);  // what counts otherwise does not depend on V
  }
  return sums;
}

}  // namespace longhaul
