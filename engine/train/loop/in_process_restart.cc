#include "engine/train/loop/in_process_restart.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/text/text.h"

namespace longhaul {

bool may_pass(const Error& fault) {
  switch (fault.code) {
    case ErrorCode::invalid_input:
    case ErrorCode::not_found:
    case ErrorCode::unsupported:
    case ErrorCode::conflict:
    case ErrorCode::corrupt: return false;
    case ErrorCode::internal:
    case ErrorCode::io:
    case ErrorCode::aborted:
    case ErrorCode::timeout:
    case ErrorCode::unavailable: return true;
  }
  return false;
}

Result<std::int64_t> await_restart_order(HeartbeatPage& beat, std::int64_t epoch, const FaultHere& fault,
                                         const Clock& clock, const std::atomic<bool>& stop,
                                         const std::function<void(const Error&)>& report) {
  const auto ordered = [&] { return beat.restart_epoch() > epoch; };
  if (ordered()) return beat.restart_epoch();  // most ranks: left because they were asked to
  const std::int64_t wait_ms = beat.restart_wait_ms();
  if (wait_ms <= 0 || !fault.passes || stop.load(std::memory_order_relaxed)) return fault.error;
  if (fault.is_own) {
    if (report) report(fault.error);  // first: who sees the page asks at once what the fault is
    beat.enter(beat.section(beat_faulted));
  }
  const Deadline deadline(clock, wait_ms);
  while (!deadline.passed()) {
    if (ordered()) return beat.restart_epoch();
    if (stop.load(std::memory_order_relaxed)) return fault.error;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return fault.error.with_context(format("no order to restart within {} ms", wait_ms));
}

std::optional<std::int64_t> newest_held_by_all(std::span<const HeldStates> ranks) {
  std::optional<std::int64_t> newest;
  if (ranks.empty()) return newest;
  for (const std::optional<std::int64_t>& one : {ranks.front().copy, ranks.front().own})
    if (one && std::ranges::all_of(ranks, [&](const HeldStates& rank) { return rank.has(*one); }))
      newest = std::max(newest.value_or(*one), *one);
  return newest;
}

std::int64_t copy_interval(std::int64_t every, double copy_seconds, double step_seconds, double share) {
  if (every <= 0 || step_seconds <= 0) return every;
  constexpr double steps_max = 1e9;  // of a clock that stood still
  return std::max(every,
                  static_cast<std::int64_t>(std::min(steps_max, std::ceil(copy_seconds / (share * step_seconds)))));
}

}  // namespace longhaul
