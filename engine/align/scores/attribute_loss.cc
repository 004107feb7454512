#include "engine/align/scores/attribute_loss.h"

#include <cmath>

#include "base/error/result.h"
#include "base/text/text.h"

namespace longhaul {

AttributeLoss attribute_loss(std::span<const double> numbers, std::span<const double> values) {
  LH_ASSERT(numbers.size() == values.size(), format("{} numbers of {} attributes", numbers.size(), values.size()));
  AttributeLoss made;
  made.slopes.assign(numbers.size(), 0.0);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (std::isnan(values[i])) continue;
    const double error = numbers[i] - values[i];
    made.loss += error * error, made.absolute += std::abs(error), made.values += 1;
    made.slopes[i] = 2 * error;
  }
  return made;
}

}  // namespace longhaul
