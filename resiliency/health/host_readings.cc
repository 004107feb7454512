#include "resiliency/health/host_readings.h"

#include <algorithm>
#include <cstdlib>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::uint64_t proc_text_max = 1 << 20;

std::string text_of(const std::string& path) {
  const auto text = read_file(path, proc_text_max);
  return text.ok() ? *text : std::string();
}

// The number behind `key` at the beginning of a line: "MemTotal:   16384 kB", "oom_kill 3".
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view key) {
  for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    if (at > 0 && text[at - 1] != '\n') continue;
    const std::string rest(text.substr(at + key.size(), 64));
    char* end = nullptr;
    const unsigned long long number = std::strtoull(rest.c_str(), &end, 10);
    if (end != rest.c_str()) return number;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> number_in(const std::string& path) {
  return number_after(text_of(path), "");
}

std::vector<std::string> names_in(const std::string& folder) {
  const auto names = list_directory(folder);
  return names.ok() ? *names : std::vector<std::string>();
}

}  // namespace

MemoryReading parse_memory(std::string_view meminfo, std::string_view pressure, std::string_view vmstat) {
  MemoryReading reading;
  reading.total_kib = number_after(meminfo, "MemTotal:").value_or(0);
  reading.available_kib = number_after(meminfo, "MemAvailable:").value_or(0);
  reading.oom_kills = number_after(vmstat, "oom_kill ");
  if (const std::size_t full = pressure.find("full "); full != std::string_view::npos)
    if (const std::size_t at = pressure.find("avg60=", full); at != std::string_view::npos)
      reading.full_pressure_pct = std::strtod(std::string(pressure.substr(at + 6, 16)).c_str(), nullptr);
  return reading;
}

MemoryReading read_memory(const std::string& proc_root) {
  return parse_memory(text_of(join_path(proc_root, "meminfo")), text_of(join_path(proc_root, "pressure/memory")),
                      text_of(join_path(proc_root, "vmstat")));
}

HealthFindings judge_memory(const MemoryReading& now, const MemoryReading* before, const MemoryLimits& limits) {
  HealthFindings findings;
  if (before && now.oom_kills && before->oom_kills && *now.oom_kills > *before->oom_kills)
    findings.push_back(
        health_finding("memory", FaultClass::out_of_memory, "",
                       format("the kernel killed {} processes for memory", *now.oom_kills - *before->oom_kills)));
  const double available = static_cast<double>(now.available_kib), total = static_cast<double>(now.total_kib);
  if (now.total_kib > 0 && available < limits.available_min * total)
    findings.push_back(
        health_finding("memory", FaultClass::memory_low, "",
                       format("{} of {} are available", human_bytes(available * 1024), human_bytes(total * 1024))));
  else if (now.full_pressure_pct.value_or(0) > limits.full_pressure_max_pct)
    findings.push_back(
        health_finding("memory", FaultClass::memory_low, "",
                       format("all tasks waited for memory in {:.0f} % of the last minute", *now.full_pressure_pct)));
  return findings;
}

std::vector<PortReading> read_ports(const std::string& class_root) {
  std::vector<PortReading> ports;
  const std::string net = join_path(class_root, "net"), infiniband = join_path(class_root, "infiniband");
  for (const std::string& name : names_in(net)) {
    const std::string folder = join_path(net, name);
    if (!file_exists(join_path(folder, "device"))) continue;  // lo, bridges and the like
    ports.push_back({name, trim(text_of(join_path(folder, "operstate"))) == "up",
                     number_in(join_path(folder, "carrier_down_count")).value_or(0)});
  }
  for (const std::string& device : names_in(infiniband))
    for (const std::string& port : names_in(join_path(infiniband, device + "/ports"))) {
      const std::string folder = join_path(infiniband, device + "/ports/" + port);
      ports.push_back({device + "/" + port, starts_with(text_of(join_path(folder, "state")), "4"),
                       number_in(join_path(folder, "counters/link_downed")).value_or(0)});
    }
  return ports;
}

HealthFindings judge_ports(const std::vector<PortReading>& now, const std::vector<PortReading>& before) {
  HealthFindings findings;
  for (const PortReading& then : before) {
    const auto port = std::find_if(now.begin(), now.end(), [&](const PortReading& p) { return p.name == then.name; });
    if (port == now.end()) {
      if (then.up) findings.push_back(health_finding("nic", FaultClass::nic_down, then.name, "the port is gone"));
    } else if (then.up && !port->up) {
      findings.push_back(health_finding("nic", FaultClass::nic_down, then.name, "the port went down"));
    } else if (port->up && port->downs > then.downs) {
      findings.push_back(health_finding("nic", FaultClass::nic_flap, then.name,
                                        format("the link went down {} times and came back", port->downs - then.downs)));
    }
  }
  return findings;
}

std::optional<HealthFinding> judge_clock(std::int64_t ours_ms, std::int64_t theirs_ms, std::int64_t round_trip_ms,
                                         std::int64_t off_max_ms) {
  // Their stamp was taken somewhere between ours and ours + round trip.
  const std::int64_t ahead = ours_ms - theirs_ms,
                     behind = theirs_ms - (ours_ms + std::max<std::int64_t>(0, round_trip_ms));
  const std::int64_t off = std::max(ahead, behind);
  if (off <= off_max_ms) return std::nullopt;
  return health_finding("clock", FaultClass::clock_skew, "",
                        format("the clock is at least {:.1f} s {}", static_cast<double>(off) * 1e-3,
                               ahead > behind ? "ahead" : "behind"));
}

HealthFindings judge_environment(const std::vector<std::pair<std::string, std::string>>& environment, int cores) {
  HealthFindings findings;
  const auto found = [&](const std::string& name, const std::string& value, const char* why) {
    findings.push_back(health_finding("environment", FaultClass::environment, name, "= " + value + ": " + why));
  };
  for (const auto& [name, value] : environment) {
    const bool on = !value.empty() && value != "0";
    if (name == "CUDA_LAUNCH_BLOCKING" && on) found(name, value, "every kernel is waited for");
    if (name == "NCCL_DEBUG" && value == "TRACE") found(name, value, "every call is logged");
    if (name == "TORCH_DISTRIBUTED_DEBUG" && value == "DETAIL") found(name, value, "every collective is checked twice");
    if (name == "LD_PRELOAD" && !value.empty()) found(name, value, "libraries of another program are loaded first");
    if (name == "MALLOC_PERTURB_" && on) found(name, value, "all memory that is freed is written");
    for (const char* off : {"NCCL_P2P_DISABLE", "NCCL_IB_DISABLE", "NCCL_SHM_DISABLE"})
      if (name == off && on) found(name, value, "a fast way between GPUs is switched off");
    if (name == "OMP_NUM_THREADS" && cores > 0 && std::atoi(value.c_str()) > cores)
      found(name, value, format("the rank has {} cores", cores).c_str());
  }
  return findings;
}

}  // namespace longhaul
