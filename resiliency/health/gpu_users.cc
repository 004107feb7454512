#include "resiliency/health/gpu_users.h"

#include <algorithm>
#include <cstdlib>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::size_t stat_max = 4096;
// The daemon through which processes share a GPU (MPS) holds it for them.
constexpr const char* sharing_daemon = "nvidia-cuda-mps";

// "12 (name) S 7 ...": the name may have blanks and brackets of its own.
bool parse_stat(const std::string& text, HostProcess& process) {
  const std::size_t open = text.find('('), close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return false;
  const std::vector<std::string> rest = split(text.substr(close + 1), ' ');  // "", state, parent, ...
  if (rest.size() < 3) return false;
  process.pid = std::atoi(text.c_str());
  process.parent = std::atoi(rest[2].c_str());
  process.name = text.substr(open + 1, close - open - 1);
  return process.pid > 0;
}

}  // namespace

std::vector<HostProcess> read_host_processes(const std::string& proc_root) {
  std::vector<HostProcess> all;
  const auto names = list_directory(proc_root);
  if (!names.ok()) return all;
  for (const std::string& name : *names) {
    if (name.empty() || name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto text = read_file(join_path(join_path(proc_root, name), "stat"), stat_max);
    HostProcess process;
    if (text.ok() && parse_stat(*text, process)) all.push_back(std::move(process));
  }
  return all;
}

std::set<int> with_descendants(std::set<int> pids, const std::vector<HostProcess>& all) {
  std::multimap<int, int> children;
  for (const HostProcess& process : all) children.emplace(process.parent, process.pid);
  std::vector<int> open(pids.begin(), pids.end());
  while (!open.empty()) {
    const int parent = open.back();
    open.pop_back();
    for (auto [child, end] = children.equal_range(parent); child != end; ++child)
      if (pids.insert(child->second).second) open.push_back(child->second);
  }
  return pids;
}

std::set<int> foreign_users(const std::vector<GpuReading>& gpus, const GpuUse& use) {
  std::set<int> foreign;
  for (const GpuReading& gpu : gpus) {
    if (use.judged.count(gpu.index) == 0) continue;
    for (const GpuProcess& process : gpu.processes)
      if (use.may_use.count(process.pid) == 0) foreign.insert(process.pid);
  }
  return foreign;
}

GpuUse GpuUsers::judge(const std::vector<GpuReading>& gpus, const std::set<int>& job,
                       const std::vector<HostProcess>& all, int gpus_asked, std::int64_t now_ms) {
  for (const int pid : with_descendants(job, all)) last_ours_ms_[pid] = now_ms;
  std::erase_if(last_ours_ms_, [&](const auto& ours) { return now_ms - ours.second > given_back_within_ms; });
  GpuUse use;
  for (const auto& [pid, last_ms] : last_ours_ms_) use.may_use.insert(pid);
  const bool all_ours = gpus_asked > 0 && gpus.size() <= static_cast<std::size_t>(gpus_asked);
  for (const GpuReading& gpu : gpus) {
    const bool used = std::any_of(gpu.processes.begin(), gpu.processes.end(),
                                  [&](const GpuProcess& process) { return last_ours_ms_.count(process.pid) > 0; });
    if (all_ours || used) use.judged.insert(gpu.index);
  }
  std::set<int> shown;
  for (const HostProcess& process : all) {
    shown.insert(process.pid);
    if (process.name.compare(0, 15, sharing_daemon) == 0) use.may_use.insert(process.pid);
  }
  for (const GpuReading& gpu : gpus)
    for (const GpuProcess& process : gpu.processes)
      if (shown.count(process.pid) == 0) use.may_use.insert(process.pid);
  return use;
}

}  // namespace longhaul
