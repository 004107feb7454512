// Who uses the GPUs, and who of them is foreign: neither a process of the job nor one that a job needs.
//
// Reported as a warning only, so what cannot be known is let pass: a process that this host does not show (of another
// container, or hidden by hidepid), and GPUs that may be another job's.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "resiliency/health/gpu_health.h"

namespace longhaul {

struct HostProcess {
  int pid = 0, parent = 0;
  std::string name;  // as the kernel keeps it: 15 characters at most
};
// All that `proc_root` (usually /proc) shows.
std::vector<HostProcess> read_host_processes(const std::string& proc_root);
std::set<int> with_descendants(std::set<int> pids, const std::vector<HostProcess>& all);

struct GpuUse {
  std::set<int> may_use;  // pids
  std::set<int> judged;   // GPUs, by index, that are the job's
};
// Those that use a GPU of the job and may not.
std::set<int> foreign_users(const std::vector<GpuReading>& gpus, const GpuUse& use);

class GpuUsers {
 public:
  // A process of the job that has ended, or was let go, may still hold memory for so long: the time that
  // nvidia-resiliency-ext waits for it (--ft-gpu-memory-reclaim-timeout).
  static constexpr std::int64_t given_back_within_ms = 50'000;

  // `job`: pids of ranks and of whoever has started them, whose descendants are the job's as well. `gpus_asked`: of
  // this host; where it shows more, or the job did not ask (-1), those are the job's that one of its processes uses.
  // Pure.
  GpuUse judge(const std::vector<GpuReading>& gpus, const std::set<int>& job, const std::vector<HostProcess>& all,
               int gpus_asked, std::int64_t now_ms);

 private:
  std::map<int, std::int64_t> last_ours_ms_;  // by pid
};

}  // namespace longhaul
