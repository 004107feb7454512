// Room resiliency/health
// Whether a host is fit to work: GPUs, memory, network ports, disks, and leftovers of earlier jobs.
// host_health.h runs all checks; gpu_health.h judges a reading of a GPU, gpu_trend.h several readings.
// nvml_library.h reads GPUs; file_system_probe.h asks file systems that may hang; host_figures.h measures speed.
// It judges readings and leaves no host: that is the lead's decision, by the policies in resiliency.
//
// All checks of one host together: reads, compares with the reading before, and says what is wrong. Called by
// `longhaul-worker health` once, and by whoever watches a host again and again; the GPU library stays loaded between.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "resiliency/health/file_system_probe.h"
#include "resiliency/health/gpu_trend.h"
#include "resiliency/health/gpu_users.h"
#include "resiliency/health/host_readings.h"
#include "resiliency/health/nvml_library.h"

namespace longhaul {

struct HostHealthOptions {
  std::string nvml_path = nvml_default_path;  // "": GPUs are not looked at
  int gpus_expected = -1;                     // -1: not known; a host without the library then has no GPUs
  std::vector<std::string> folders;           // whose file systems have to answer
  std::string shm_path = "/dev/shm";          // "": not looked at
  std::string class_root = "/sys/class", proc_root = "/proc";
  std::int64_t file_system_deadline_ms = 5'000;
  std::vector<std::string> site_check;  // program and arguments, run at the first look; exit code 0: healthy
  std::int64_t site_check_deadline_ms = 60'000;
  std::vector<std::pair<std::string, std::string>> environment;
  int cores = 0;                      // of a rank; 0: not known
  std::optional<std::set<int>> ours;  // pids that may use any GPU, and no others may; nothing: as job_pids says
  // The newest message about the job's processes on this host (gpu_users.h); nothing: there was none yet. Without it,
  // or a message, processes are not judged.
  std::function<std::optional<std::set<int>>()> job_pids;
  // Who is foreign at first sight, for ranks start and end while a look is under way, is looked at again for so long.
  std::int64_t foreign_settle_ms = 3'000;
  GpuLimits gpu;
  MemoryLimits memory;
  FileSystemLimits disk;
};

// Not thread-safe; every look returns within the times above, except for what the GPU's driver does.
class HostHealth {
 public:
  explicit HostHealth(HostHealthOptions options);
  HealthFindings look();
  // Waits `ms` for what the GPU's driver reports by itself: its XIDs, as they come. Earlier only when one came.
  HealthFindings wait(std::int64_t ms);
  std::size_t gpus() const { return gpus_.size(); }  // of the last look
  // Where simulated GPUs have what they say from; "": they are real, or there are none.
  std::string gpu_script() const { return nvml_ ? nvml_->script() : std::string(); }

 private:
  void look_at_gpus(HealthFindings& findings);
  void judge_gpus(HealthFindings& findings);
  GpuUse settled_use(std::vector<GpuReading>& readings);
  void look_at_disks(HealthFindings& findings);
  void run_site_check(HealthFindings& findings) const;

  HostHealthOptions options_;
  std::optional<NvmlLibrary> nvml_;
  bool looked_ = false;
  std::vector<GpuReading> gpus_;
  std::map<int, GpuTrend> trends_;
  GpuUsers users_;
  std::set<int> foreign_;  // of the last look: reported already
  std::optional<MemoryReading> memory_;
  std::vector<PortReading> ports_;
  std::vector<FileSystemProbe> folders_;
  FileSystemProbe shm_;
};

}  // namespace longhaul
