#include "resiliency/checkpoint_interval.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace longhaul {
namespace {

constexpr std::size_t stalls_kept = 9;    // one slow save among them does not move the median
constexpr double stall_least_s = 1e-3;    // a save that costs nothing would be taken at every step
constexpr double step_smoothing_s = 600;  // step times of the last ten minutes count

}  // namespace

double young_interval_s(double stall_s, double mtbf_s) {
  return std::sqrt(2 * stall_s * mtbf_s);
}

double daly_interval_s(double stall_s, double mtbf_s) {
  if (stall_s >= 2 * mtbf_s) return mtbf_s;
  const double half = stall_s / (2 * mtbf_s);
  return young_interval_s(stall_s, mtbf_s) * (1 + std::sqrt(half) / 3 + half / 9) - stall_s;
}

double failure_prior_s(int nodes, double failures_per_1000_node_days) {
  return 1000.0 / (failures_per_1000_node_days * std::max(1, nodes)) * 24 * 3600;
}

IntervalChooser::IntervalChooser(const IntervalSettings& settings)
    : settings_(settings), step_s_(settings.step_prior_s) {
  choose();
}

void IntervalChooser::ran(double seconds, std::int64_t steps, double steps_s) {
  const double kept = std::exp(-seconds / settings_.memory_s);
  failures_ *= kept;
  watched_s_ = watched_s_ * kept + seconds;
  if (steps > 0 && steps_s > 0) {
    const double weight = 1 - std::exp(-steps_s / step_smoothing_s);
    step_s_ += weight * (steps_s / static_cast<double>(steps) - step_s_);
  }
  choose();
}

void IntervalChooser::saved(double stall_s, double write_s) {
  stalls_.push_back(stall_s);
  if (stalls_.size() > stalls_kept) stalls_.pop_front();
  write_s_ = write_s;
  choose();
}

void IntervalChooser::failed() {
  failures_ += 1;
  choose();
}

double IntervalChooser::mtbf_s() const {
  return (settings_.prior_failures * settings_.mtbf_prior_s + watched_s_) / (settings_.prior_failures + failures_);
}

double IntervalChooser::stall_s() const {
  if (stalls_.empty()) return settings_.stall_prior_s;
  std::vector<double> sorted(stalls_.begin(), stalls_.end());
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2), sorted.end());
  return sorted[sorted.size() / 2];
}

void IntervalChooser::choose() {
  const double wanted_s = std::max(daly_interval_s(std::max(stall_least_s, stall_s()), mtbf_s()), write_s_);
  const double least = std::max<double>(static_cast<double>(settings_.steps_min), std::ceil(write_s_ / step_s_));
  const double wanted = std::clamp(wanted_s / step_s_, static_cast<double>(settings_.steps_min),
                                   static_cast<double>(settings_.steps_max));
  const double now = static_cast<double>(steps_);
  const bool near = now >= least && std::fabs(wanted - now) <= settings_.change_min * now;
  // A bound is met exactly, however near the answer was.
  const bool at_bound =
      wanted == static_cast<double>(settings_.steps_min) || wanted == static_cast<double>(settings_.steps_max);
  if (steps_ > 0 && near && !at_bound) return;
  steps_ = std::max<std::int64_t>(
      1, std::llround(std::min(std::max(wanted, least), static_cast<double>(settings_.steps_max))));
}

}  // namespace longhaul
