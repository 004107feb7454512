#include "engine/tasks/common/text_windows.h"

#include <algorithm>
#include <cmath>

namespace longhaul {

std::vector<TextWindow> text_windows(std::int64_t tokens, std::int64_t context, std::int64_t stride) {
  std::vector<TextWindow> windows;
  for (std::int64_t scored = 1; scored < tokens;) {
    // The first window scores a whole context, each later one a stride.
    const std::int64_t end = std::min(tokens, windows.empty() ? context + 1 : scored + stride);
    windows.push_back({std::max<std::int64_t>(0, end - context - 1), end, scored});
    scored = end;
  }
  return windows;
}

Interval wilson_interval(double successes, double trials, double z) {
  if (trials <= 0) return {0, 1};
  const double p = successes / trials, z2 = z * z;
  const double center = (p + z2 / (2 * trials)) / (1 + z2 / trials);
  const double half = z / (1 + z2 / trials) * std::sqrt(p * (1 - p) / trials + z2 / (4 * trials * trials));
  return {center - half, center + half};
}

}  // namespace longhaul
