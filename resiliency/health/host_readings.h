// Memory, network ports, clock and environment of a host: readings, the judgements over them, and their thin readers.
// Folders are given (usually /proc and /sys/class), so tests bring their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "resiliency/health/health_finding.h"

namespace longhaul {

// --- memory
struct MemoryReading {
  std::uint64_t total_kib = 0, available_kib = 0;
  std::optional<double> full_pressure_pct;  // share of the last minute in which all tasks waited for memory (PSI)
  std::optional<std::uint64_t> oom_kills;   // since boot
};
// Our own figures: no published ones were found. Both leave a training alone that fills its page cache.
struct MemoryLimits {
  double available_min = 0.03;        // share of the total
  double full_pressure_max_pct = 10;  // of the last minute
};
// From the texts of /proc/meminfo, /proc/pressure/memory ("" where the kernel has none) and /proc/vmstat.
MemoryReading parse_memory(std::string_view meminfo, std::string_view pressure, std::string_view vmstat);
MemoryReading read_memory(const std::string& proc_root);
HealthFindings judge_memory(const MemoryReading& now, const MemoryReading* before, const MemoryLimits& limits = {});

// --- network ports
struct PortReading {
  std::string name;         // "eth0", "mlx5_0/1"
  bool up = false;          // net: operstate "up"; InfiniBand: state 4, ACTIVE
  std::uint64_t downs = 0;  // how often the link went down since the driver was loaded
};
// Ports of real devices below `class_root`/net and `class_root`/infiniband, by name.
std::vector<PortReading> read_ports(const std::string& class_root);
// A port that is down may be one that nobody uses: only what changed is judged.
HealthFindings judge_ports(const std::vector<PortReading>& now, const std::vector<PortReading>& before);

// --- clock
// `ours_ms`: this host's wall clock when it sent its stamp; `theirs_ms`: the other's when it answered; `round_trip_ms`:
// between asking and the answer. A difference that the way there and back explains is none.
std::optional<HealthFinding> judge_clock(std::int64_t ours_ms, std::int64_t theirs_ms, std::int64_t round_trip_ms,
                                         std::int64_t off_max_ms = 1000);

// --- environment
// Variables that slow down or change what runs, and are seldom meant when a job inherits them. `cores`: that a rank may
// use; 0: not known.
HealthFindings judge_environment(const std::vector<std::pair<std::string, std::string>>& environment, int cores);

}  // namespace longhaul
