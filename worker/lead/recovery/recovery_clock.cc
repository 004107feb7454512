#include "worker/lead/recovery/recovery_clock.h"

#include <algorithm>

namespace longhaul {
namespace {

double between(std::int64_t from_ms, std::int64_t to_ms) {
  return static_cast<double>(to_ms - from_ms) * 1e-3;
}

}  // namespace

void RecoveryClock::fault(std::int64_t now_ms, double silent_s, std::int64_t step) {
  if (!fault_ms_) {
    fault_ms_ = now_ms - static_cast<std::int64_t>(silent_s * 1000);
    detected_ms_ = now_ms;
    step_before_ = -1;
  }
  newest_ms_ = now_ms;
  step_before_ = std::max(step_before_, step);
  stopped_ms_.reset(), started_ms_.reset(), loaded_ms_.reset();
}

void RecoveryClock::stopped(std::int64_t now_ms) {
  if (fault_ms_ && !stopped_ms_) stopped_ms_ = now_ms;
}

void RecoveryClock::launched(int launch, int ranks, std::int64_t epoch) {
  launch_ = launch, ranks_ = ranks, epoch_ = epoch;
  first_step_ = -1;
}

std::optional<RecoveredEvent> RecoveryClock::look(std::int64_t now_ms, const std::map<int, RankReport>& ranks) {
  if (!fault_ms_ || !stopped_ms_) return std::nullopt;
  int there = 0;
  std::int64_t newest = -1;  // under way: the one before it is done
  for (const auto& [rank, report] : ranks) {
    if (report.beat.epoch < epoch_) continue;  // what it does belongs to before the order
    ++there, newest = std::max(newest, report.beat.step);
  }
  if (!started_ms_ && there >= ranks_) started_ms_ = now_ms;
  if (!started_ms_ || newest < 0) return std::nullopt;
  if (!loaded_ms_) loaded_ms_ = now_ms, first_step_ = newest;
  if (newest <= first_step_) return std::nullopt;
  RecoveredEvent event;
  event.launch = launch_;
  event.detect_s = between(*fault_ms_, detected_ms_);
  event.stop_s = between(detected_ms_, *stopped_ms_);
  event.teardown_s = between(newest_ms_, *stopped_ms_);
  event.start_s = between(*stopped_ms_, *started_ms_);
  event.load_s = between(*started_ms_, *loaded_ms_);
  event.first_step_s = between(*loaded_ms_, now_ms);
  event.total_s = between(*fault_ms_, now_ms);
  if (step_before_ >= 0) event.lost_steps = std::max<std::int64_t>(0, step_before_ - first_step_);
  *this = {};
  return event;
}

}  // namespace longhaul
