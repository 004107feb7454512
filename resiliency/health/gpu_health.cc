#include "resiliency/health/gpu_health.h"

#include "base/text/text.h"
#include "resiliency/taxonomy/xid_class.h"

namespace longhaul {
namespace {

std::string reasons_text(unsigned long long reasons) {
  std::vector<std::string> parts;
  if (reasons & clock_hw_slowdown) parts.push_back("hardware slowdown");
  if (reasons & clock_hw_thermal) parts.push_back("heat");
  if (reasons & clock_hw_power_brake) parts.push_back("power brake");
  return join(parts, ", ");
}

}  // namespace

unsigned long long growth(const std::optional<unsigned long long>& now,
                          const std::optional<unsigned long long>& before) {
  return now && before && *now > *before ? *now - *before : 0;
}

HealthFindings judge_gpu(const GpuReading& now, const GpuReading* before, const std::set<int>* ours,
                         const GpuLimits& limits) {
  HealthFindings findings;
  const std::string device = format("GPU {}", now.index);
  const auto found = [&](FaultClass fault, const std::string& what, const char* check = "gpu") {
    findings.push_back(health_finding(check, fault, device, what));
  };
  if (now.lost) {
    found(FaultClass::gpu_lost, "the driver has lost it");
    return findings;  // nothing else that it says can be trusted
  }
  if (const int action = now.recovery_action.value_or(0); action != 0)
    found(class_of_recovery_action(action), format("the driver asks for recovery action {}", action));
  if (now.remap_failed) found(FaultClass::gpu_remap_failed, "a memory row could not be remapped");
  if (now.remap_pending) found(FaultClass::gpu_remap_pending, "a memory row waits for a reset to be remapped");
  if (now.remapped_rows.value_or(0) > limits.remapped_rows_max)
    found(FaultClass::gpu_memory_degrading,
          format("{} memory rows are remapped, more than {}", *now.remapped_rows, limits.remapped_rows_max));
  if (before) {
    if (const auto errors = growth(now.uncorrected, before->uncorrected); errors > 0)
      found(FaultClass::gpu_memory_error, format("{} new uncorrected memory errors", errors), "ecc");
    else if (const auto ever = growth(now.uncorrected_ever, before->uncorrected_ever); ever > 0)
      found(FaultClass::gpu_memory_degrading,
            format("{} more uncorrected memory errors in its life, and not one since the driver was loaded: it was "
                   "loaded anew",
                   ever),
            "ecc");
  } else if (now.uncorrected.value_or(0) > 0) {
    found(FaultClass::gpu_memory_degrading,
          format("{} uncorrected memory errors since the driver was loaded", *now.uncorrected), "ecc");
  }
  const unsigned long long protecting = clock_hw_slowdown | clock_hw_thermal | clock_hw_power_brake;
  if (now.clock_reasons.value_or(0) & protecting)
    found(FaultClass::gpu_slowed, "its clock is held down: " + reasons_text(*now.clock_reasons));
  else if (now.temperature_c && now.slowdown_c && *now.slowdown_c > 0 && *now.temperature_c >= *now.slowdown_c)
    found(FaultClass::gpu_slowed, format("{} C, and it slows down at {} C", *now.temperature_c, *now.slowdown_c));
  if (ours)
    for (const GpuProcess& process : now.processes)
      if (ours->count(process.pid) == 0)
        found(FaultClass::gpu_in_use, format("process {} is not ours and holds {}", process.pid,
                                             human_bytes(static_cast<double>(process.bytes))));
  return findings;
}

void NvlinkWindow::add(const GpuReading& now, const GpuReading& before) {
  const bool flag = growth(now.nvlink_replays, before.nvlink_replays) > 0 ||
                    growth(now.nvlink_recoveries, before.nvlink_recoveries) > 0;
  if (seen_.size() < static_cast<std::size_t>(limits_.nvlink_window)) {
    seen_.push_back(flag);
  } else {
    flagged_ -= seen_[next_] ? 1 : 0;
    seen_[next_] = flag;
    next_ = (next_ + 1) % seen_.size();
  }
  flagged_ += flag ? 1 : 0;
}

}  // namespace longhaul
