// Whether a GPU is fit to train on, judged from one reading, and from the one before it where a count matters. What
// only shows over several readings is in gpu_trend.h.
//
// Counters of errors since the driver was loaded say what was; only their growth says what is. So a first reading
// with uncorrected errors is a warning, and growth is a fault.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "resiliency/health/health_finding.h"

namespace longhaul {

struct GpuProcess {
  int pid = 0;
  std::uint64_t bytes = 0;
};

// What a device does not support, or the driver does not report, is absent.
struct GpuReading {
  int index = 0;
  std::string uuid, pci;
  bool lost = false;                                  // NVML_ERROR_GPU_IS_LOST
  std::optional<unsigned> temperature_c, slowdown_c;  // now; where the device slows itself down
  std::optional<unsigned> power_mw, power_limit_mw;   // now; enforced
  std::optional<unsigned> sm_clock_mhz, sm_clock_max_mhz;
  std::optional<unsigned> busy_pct;                 // share of the driver's last sampling period in which a kernel ran
  std::optional<unsigned long long> clock_reasons;  // bits, below
  std::optional<unsigned long long> corrected, uncorrected;  // ECC errors since the driver was loaded
  std::optional<unsigned long long> corrected_ever, uncorrected_ever;
  std::optional<unsigned> remapped_rows;  // for uncorrectable errors
  bool remap_pending = false, remap_failed = false;
  std::optional<int> recovery_action;                                               // taxonomy/xid_class.h
  std::optional<unsigned long long> nvlink_replays, nvlink_recoveries, nvlink_crc;  // of all links
  std::vector<GpuProcess> processes;
};

// Bits of nvmlDeviceGetCurrentClocksEventReasons that mean that the hardware protects itself; SW power cap (0x4) and
// idle (0x1) are normal.
inline constexpr unsigned long long clock_hw_slowdown = 0x8, clock_hw_thermal = 0x40, clock_hw_power_brake = 0x80;

struct GpuLimits {
  // Of machines with more than ten remapped rows 83 % regressed (SuperBench, Azure, 24,000 A100).
  unsigned remapped_rows_max = 10;
  // A reading in which the links of a GPU replayed or recovered is flagged; more than 15 of the last 30 readings make
  // it a fault (nvidia-resiliency-ext, NVLink window check, there with readings a minute apart).
  int nvlink_window = 30, nvlink_flagged_max = 15;

  // What follows is reported as a warning and ends nothing (gpu_trend.h).
  // So many corrected memory errors within the window are reported. NVIDIA's DCGM warns at 10 in what its health watch
  // looks at, which its source calls a placeholder; that the window is an hour is our own choice.
  unsigned long long corrected_max = 10;
  std::int64_t corrected_window_ms = 3'600'000;
  // "CRC errors only matter at rates of 100+ per second" (DCGM, dcgm_gpu_hardware_limits.h).
  double nvlink_crc_per_s_max = 100;
  // A clock below this share of its maximum, while the GPU is busy and reports no reason for it: the share below which
  // nvidia-resiliency-ext calls a GPU a straggler (identify_stragglers), there of its speed. Our own: what counts as
  // busy, and after how many looks in a row it is reported.
  double clock_share_min = 0.75;
  unsigned busy_min_pct = 50;
  int slow_clock_looks = 3;
  // Power at its limit is normal for a GPU that works hard: a note, after so many looks in a row (our own choice).
  int full_power_looks = 3;
};

// By how much a counter grew; a driver that was loaded anew begins at 0 again, which is no growth.
unsigned long long growth(const std::optional<unsigned long long>& now,
                          const std::optional<unsigned long long>& before);

// `before`: nullptr at the first look. `ours`: pids that may use the GPU; others are foreign. Without `ours` (nullptr)
// processes are not judged.
HealthFindings judge_gpu(const GpuReading& now, const GpuReading* before, const std::set<int>* ours,
                         const GpuLimits& limits = {});

// The last readings of one GPU's links, flagged or not.
class NvlinkWindow {
 public:
  explicit NvlinkWindow(const GpuLimits& limits = {}) : limits_(limits) {}
  void add(const GpuReading& now, const GpuReading& before);
  bool bad() const { return flagged_ > limits_.nvlink_flagged_max; }
  int flagged() const { return flagged_; }

 private:
  GpuLimits limits_;
  std::vector<bool> seen_;  // a ring
  std::size_t next_ = 0;
  int flagged_ = 0;
};

}  // namespace longhaul
