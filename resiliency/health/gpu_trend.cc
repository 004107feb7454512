#include "resiliency/health/gpu_trend.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {
namespace {

std::string gpu_name(const GpuReading& gpu) {
  return format("GPU {}", gpu.index);
}

std::string window_text(std::int64_t ms) {
  return human_duration(static_cast<double>(ms) * 1e-3);
}

}  // namespace

HealthFindings GpuTrend::add(const GpuReading& now, std::int64_t now_ms) {
  HealthFindings findings;
  if (now.lost) return findings;
  if (before_) {
    judge_corrected(now, now_ms, findings);
    judge_links(now, now_ms, findings);
  }
  judge_clock(now, findings);
  judge_power(now, findings);
  before_ = now, before_ms_ = now_ms;
  return findings;
}

void GpuTrend::judge_corrected(const GpuReading& now, std::int64_t now_ms, HealthFindings& findings) {
  // The count of the GPU's life goes on where a driver that was loaded anew begins again.
  const auto errors =
      std::max(growth(now.corrected, before_->corrected), growth(now.corrected_ever, before_->corrected_ever));
  if (errors > 0) corrected_.push_back({now_ms, errors});
  while (!corrected_.empty() && now_ms - corrected_.front().at_ms > limits_.corrected_window_ms) corrected_.pop_front();
  unsigned long long all = 0;
  for (const Grown& grown : corrected_) all += grown.errors;
  if (all < limits_.corrected_max || all == 0) return;
  std::string what = format("{} corrected memory errors within {}", all, window_text(limits_.corrected_window_ms));
  if (now.corrected_ever) what += format(", {} in its life", *now.corrected_ever);
  findings.push_back(health_finding("ecc", FaultClass::gpu_memory_degrading, gpu_name(now), what));
}

void GpuTrend::judge_links(const GpuReading& now, std::int64_t now_ms, HealthFindings& findings) {
  links_.add(now, *before_);
  if (links_.bad())
    findings.push_back(health_finding(
        "nvlink", FaultClass::nvlink, gpu_name(now),
        format("its links had errors in {} of the last {} readings", links_.flagged(), limits_.nvlink_window)));
  const auto errors = growth(now.nvlink_crc, before_->nvlink_crc);
  const double per_s =
      static_cast<double>(errors) * 1e3 / static_cast<double>(std::max<std::int64_t>(1, now_ms - before_ms_));
  if (errors > 0 && per_s >= limits_.nvlink_crc_per_s_max)
    findings.push_back(health_finding("nvlink", FaultClass::nvlink_errors, gpu_name(now),
                                      format("its links had {:.0f} checksum errors a second, {} or more are many",
                                             per_s, limits_.nvlink_crc_per_s_max)));
}

void GpuTrend::judge_clock(const GpuReading& now, HealthFindings& findings) {
  const bool known = now.sm_clock_mhz && now.sm_clock_max_mhz && now.clock_reasons && now.busy_pct;
  const bool slow = known && *now.clock_reasons == 0 && *now.busy_pct >= limits_.busy_min_pct &&
                    *now.sm_clock_mhz < limits_.clock_share_min * *now.sm_clock_max_mhz;
  slow_looks_ = slow ? slow_looks_ + 1 : 0;
  if (slow_looks_ < limits_.slow_clock_looks) return;
  findings.push_back(health_finding("gpu_clock", FaultClass::gpu_slowed, gpu_name(now),
                                    format("its clock is at {} of {} MHz for {} looks, it is busy, and the driver "
                                           "reports no reason: locked by somebody?",
                                           *now.sm_clock_mhz, *now.sm_clock_max_mhz, slow_looks_)));
}

void GpuTrend::judge_power(const GpuReading& now, HealthFindings& findings) {
  const bool full =
      now.power_mw && now.power_limit_mw && *now.power_limit_mw > 0 && *now.power_mw >= *now.power_limit_mw;
  full_looks_ = full ? full_looks_ + 1 : 0;
  if (full_looks_ < limits_.full_power_looks) return;
  findings.push_back(health_finding("gpu_power", FaultClass::gpu_event, gpu_name(now),
                                    format("it draws {:.0f} W, and may draw {:.0f} W: its limit sets its speed",
                                           *now.power_mw * 1e-3, *now.power_limit_mw * 1e-3)));
}

}  // namespace longhaul
