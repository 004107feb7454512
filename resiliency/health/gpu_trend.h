// What only several readings of a GPU report: errors that are corrected and grow more, links that repeat themselves, a
// clock that stays low for no reason, power that stays at its limit. Pure; times are given.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "resiliency/health/gpu_health.h"

namespace longhaul {

// Of one GPU.
class GpuTrend {
 public:
  explicit GpuTrend(const GpuLimits& limits = {}) : limits_(limits), links_(limits) {}
  // `now_ms`: of any clock that never steps back. What a lost GPU says counts for nothing.
  HealthFindings add(const GpuReading& now, std::int64_t now_ms);

 private:
  void judge_corrected(const GpuReading& now, std::int64_t now_ms, HealthFindings& findings);
  void judge_links(const GpuReading& now, std::int64_t now_ms, HealthFindings& findings);
  void judge_clock(const GpuReading& now, HealthFindings& findings);
  void judge_power(const GpuReading& now, HealthFindings& findings);

  struct Grown {
    std::int64_t at_ms = 0;
    unsigned long long errors = 0;
  };
  GpuLimits limits_;
  std::optional<GpuReading> before_;
  std::int64_t before_ms_ = 0;
  std::deque<Grown> corrected_;  // within the window, oldest first
  NvlinkWindow links_;
  int slow_looks_ = 0, full_looks_ = 0;  // in a row
};

}  // namespace longhaul
