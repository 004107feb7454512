#include "engine/train/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace longhaul {

double learning_rate(const OptimizerSettings& settings, std::int64_t step, std::int64_t steps) {
  // A short run keeps at least half of its steps for the decay.
  const std::int64_t warmup = std::min(settings.warmup_steps, steps / 2);
  if (step <= warmup) return settings.lr * static_cast<double>(step) / static_cast<double>(warmup);
  if (settings.lr_schedule == "constant") return settings.lr;
  const double lr_min = settings.lr * settings.lr_min_ratio;
  const double length = static_cast<double>(std::max<std::int64_t>(1, steps - warmup));
  const double x = std::clamp(static_cast<double>(step - warmup) / length, 0.0, 1.0);
  const double share = settings.lr_schedule == "linear" ? 1.0 - x : 0.5 * (1.0 + std::cos(std::numbers::pi * x));
  return lr_min + (settings.lr - lr_min) * share;
}

}  // namespace longhaul
