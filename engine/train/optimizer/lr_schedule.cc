#include "engine/train/optimizer/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/text/text.h"

namespace longhaul {
namespace {

// One run of the schedule. Where it begins is absolute; where it ends is a share of lr.
struct Course {
  double start = 0;
  std::int64_t warmup = 0, steps = 0;
};

double rate_on(const Course& course, const OptimizerSettings& settings, std::int64_t step) {
  // A short run keeps at least half of its steps for the decay.
  const std::int64_t warmup = std::min(course.warmup, course.steps / 2);
  if (step <= warmup)
    return course.start + (settings.lr - course.start) * static_cast<double>(step) / static_cast<double>(warmup);
  if (settings.lr_schedule == "constant") return settings.lr;
  const double lr_min = settings.lr * settings.lr_min_ratio;
  if (settings.lr_schedule == "inverse_sqrt") {
    const auto w = static_cast<double>(std::max<std::int64_t>(1, warmup));
    return std::max(lr_min, settings.lr * std::sqrt(w) / std::sqrt(static_cast<double>(step)));
  }
  std::int64_t decay_begin = warmup;
  std::string shape = settings.lr_schedule;
  if (shape == "wsd") {
    const std::int64_t asked = settings.lr_decay_steps > 0 ? settings.lr_decay_steps : course.steps / 10;
    decay_begin = std::max(warmup, course.steps - std::max<std::int64_t>(1, asked));
    shape = settings.lr_decay_shape;
  }
  const double length = static_cast<double>(std::max<std::int64_t>(1, course.steps - decay_begin));
  const double r = std::clamp(static_cast<double>(step - decay_begin) / length, 0.0, 1.0);
  return lr_min + (settings.lr - lr_min) * decay_share(shape, r);
}

}  // namespace

double decay_share(const std::string& shape, double r) {
  if (shape == "linear") return 1.0 - r;
  if (shape == "one_minus_sqrt") return 1.0 - std::sqrt(r);
  if (shape == "exponential") return 2.0 * std::pow(0.5, r) - 1.0;
  LH_ASSERT(shape == "cosine", format("unknown decay shape {}", shape));
  return 0.5 * (1.0 + std::cos(std::numbers::pi * r));
}

double learning_rate(const OptimizerSettings& settings, std::int64_t step, std::int64_t steps) {
  Course first{settings.lr * settings.lr_start_ratio, settings.warmup_steps, steps};
  if (settings.rewarm_after <= 0 || settings.rewarm_after >= steps) return rate_on(first, settings, step);
  first.steps = settings.rewarm_after;
  if (step <= first.steps) return rate_on(first, settings, step);
  const Course again{rate_on(first, settings, first.steps), settings.rewarm_steps, steps - first.steps};
  return rate_on(again, settings, step - first.steps);
}

double learning_rate(const PlannedPhase& phase, std::int64_t step) {
  if (phase.lr_shape == "constant") return phase.lr_end;
  const double r = static_cast<double>(step - phase.first_step + 1) / static_cast<double>(phase.steps());
  return phase.lr_end + (phase.lr_begin - phase.lr_end) * decay_share(phase.lr_shape, std::clamp(r, 0.0, 1.0));
}

}  // namespace longhaul
