#include "resiliency/detect/loss/loss_watch.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace longhaul {
namespace {

double middle_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

const char* to_string(LossVerdict verdict) {
  switch (verdict) {
    case LossVerdict::fine: return "fine";
    case LossVerdict::not_finite: return "not a number";
    case LossVerdict::spike: return "spike";
    case LossVerdict::still_high: return "still high";
    case LossVerdict::calm_again: return "calm again";
    case LossVerdict::new_level: return "new level";
  }
  return "";
}

double LossWatch::median() const {
  return middle_of({losses_.begin(), losses_.end()});
}

double LossWatch::deviation() const {
  const double middle = median();
  std::vector<double> distances;
  for (const double loss : losses_) distances.push_back(std::abs(loss - middle));
  return 1.4826 * middle_of(std::move(distances));
}

void LossWatch::keep(double loss) {
  losses_.push_back(loss);
  if (losses_.size() > static_cast<std::size_t>(options_.window)) losses_.pop_front();
}

LossVerdict LossWatch::observe(std::int64_t, double loss) {
  if (!std::isfinite(loss)) return LossVerdict::not_finite;
  if (losses_.size() < static_cast<std::size_t>(options_.least)) {
    keep(loss);
    return LossVerdict::fine;
  }
  const double limit = high() ? options_.calm_deviations : options_.spike_deviations;
  const double least = options_.least_rise * std::abs(median()) * (high() ? 0.5 : 1);
  if (loss - median() <= std::max(limit * deviation(), least)) {
    const bool was_high = high();
    high_steps_ = 0;
    high_losses_.clear();
    keep(loss);
    return was_high ? LossVerdict::calm_again : LossVerdict::fine;
  }
  high_losses_.push_back(loss);
  if (++high_steps_ == 1) return LossVerdict::spike;
  if (high_steps_ < options_.accept_after) return LossVerdict::still_high;
  losses_ = std::move(high_losses_);
  high_losses_.clear();
  high_steps_ = 0;
  return LossVerdict::new_level;
}

}  // namespace longhaul
