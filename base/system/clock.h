// Room base/system
// The operating system's small services: clocks and deadlines, threads, shared libraries, names of users.
// Start with clock.h: time is passed in, so that tests set it; parallel_for.h runs a loop on threads.
// It opens no files and starts no processes: base/files and base/process lie above it.
//
// Time is passed in: programs use SystemClock, tests a ManualClock. Wall time labels facts; durations and deadlines are
// always taken from the monotonic clock.
#pragma once

#include <cstdint>
#include <string>

namespace longhaul {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::int64_t wall_ms() const = 0;       // milliseconds since 1970-01-01 UTC
  virtual std::int64_t monotonic_ns() const = 0;  // never steps back, no meaning across hosts
  virtual void sleep_ms(std::int64_t ms) = 0;
};

class SystemClock final : public Clock {
 public:
  std::int64_t wall_ms() const override;
  std::int64_t monotonic_ns() const override;
  void sleep_ms(std::int64_t ms) override;
};

class ManualClock final : public Clock {
 public:
  explicit ManualClock(std::int64_t wall_ms = 1'700'000'000'000) : wall_ms_(wall_ms) {}
  std::int64_t wall_ms() const override { return wall_ms_; }
  std::int64_t monotonic_ns() const override { return monotonic_ns_; }
  void sleep_ms(std::int64_t ms) override { advance_ms(ms); }
  void advance_ms(std::int64_t ms) {
    wall_ms_ += ms;
    monotonic_ns_ += ms * 1'000'000;
  }

 private:
  std::int64_t wall_ms_;
  std::int64_t monotonic_ns_ = 0;
};

// A point after which a wait must have ended.
class Deadline {
 public:
  Deadline(const Clock& clock, std::int64_t ms) : clock_(&clock), end_ns_(clock.monotonic_ns() + ms * 1'000'000) {}
  bool passed() const { return clock_->monotonic_ns() >= end_ns_; }
  std::int64_t left_ms() const {
    const std::int64_t left = (end_ns_ - clock_->monotonic_ns()) / 1'000'000;
    return left > 0 ? left : 0;
  }

 private:
  const Clock* clock_;
  std::int64_t end_ns_;
};

std::string utc_text(std::int64_t wall_ms);          // "2026-03-02T04:11:09.201Z"
std::string compact_utc_text(std::int64_t wall_ms);  // "20260302-041109", for names of runs

}  // namespace longhaul
