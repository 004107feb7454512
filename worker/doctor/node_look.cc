#include "worker/doctor/node_look.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "contracts/settings/job/launcher_variables.h"
#include "resiliency/health/nvml_library.h"
#include "worker/launch/gpu_places.h"
#include "worker/launch/near_gpu.h"

namespace longhaul {
namespace {

// A limit of cgroup v1 that means none is the largest number that it can hold, in pages.
constexpr std::int64_t no_limit_from = std::int64_t{1} << 60;

int openable_devices() {
  int count = 0;
  const auto names = list_directory("/dev");
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    if (!starts_with(name, "nvidia") || name.find_first_not_of("0123456789", 6) != std::string::npos || name.size() < 7)
      continue;
    const FileDescriptor fd(::open(("/dev/" + name).c_str(), O_RDWR | O_CLOEXEC));
    if (fd.valid()) ++count;
  }
  return count;
}

int nvml_gpus() {
  auto nvml = NvmlLibrary::open();
  return nvml.ok() ? static_cast<int>(nvml->read().size()) : -1;
}

int named_gpus(const std::string& visible) {
  return visible.empty() ? -1 : static_cast<int>(split(visible, ',').size());
}

struct Space {
  std::int64_t all = -1, free = -1;
};
Space space_of(const std::string& folder) {
  struct statvfs at{};
  if (::statvfs(folder.c_str(), &at) != 0) return {};
  const auto unit = static_cast<std::int64_t>(at.f_frsize);
  return {unit * static_cast<std::int64_t>(at.f_blocks), unit * static_cast<std::int64_t>(at.f_bavail)};
}

Value look_at_local_folder(const std::string& folder) {
  Value found = Value::make_table();
  found.set("there", is_directory(folder));
  const auto names = list_directory(folder);
  found.set("entries", names.ok() ? static_cast<std::int64_t>(names->size()) : -1);
  found.set("bytes", space_of(folder).all);
  const std::string file = join_path(folder, format("longhaul-doctor-{}", ::getpid()));
  const bool writable = write_file_atomic(file, "x").ok();
  if (writable) (void)remove_tree(file).ok();
  found.set("writable", writable);
  return found;
}

std::int64_t number_in(const std::string& path) {
  const auto text = read_file(path);
  if (!text.ok() || trim(*text).empty() || trim(*text) == "max") return -1;
  const std::int64_t number = std::atoll(text->c_str());
  return number >= no_limit_from ? -1 : number;
}

}  // namespace

int count_of_list(const std::string& list) {
  int count = 0;
  for (const std::string& part : split(trim(list), ',')) {
    if (part.empty()) continue;
    const std::size_t dash = part.find('-');
    count +=
        dash == std::string::npos ? 1 : std::max(0, std::atoi(part.c_str() + dash + 1) - std::atoi(part.c_str()) + 1);
  }
  return count;
}

std::int64_t memory_limit(const std::string& proc_self_cgroup, const std::string& cgroup_root) {
  std::int64_t least = -1;
  for (const std::string& line : split(proc_self_cgroup, '\n')) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && controllers != "memory") continue;
    const std::string root = unified ? cgroup_root : join_path(cgroup_root, "memory");
    for (std::string at = line.substr(second + 1);; at = parent_path(at)) {
      const std::int64_t limit = number_in(root + at + (unified ? "/memory.max" : "/memory.limit_in_bytes"));
      if (limit > 0 && (least < 0 || limit < least)) least = limit;
      if (at.size() <= 1) break;
    }
  }
  return least;
}

Value look_at_place(const Variable& variable, const std::string& root) {
  Value place = Value::make_table();
  place.set("host", host_name());
  place.set("node", variable("SLURMD_NODENAME"));
  for (const char* name : launcher_rank_variables)
    if (const std::string rank = variable(name); !rank.empty() && !place.find("rank"))
      place.set("rank", rank), place.set("rank_by", name);
  place.set("task", variable("SLURM_PROCID"));
  place.set("nvml", nvml_gpus());
  place.set("devices", openable_devices());
  place.set("named", named_gpus(variable("CUDA_VISIBLE_DEVICES")));
  place.set("local_rank", local_rank(variable).rank);
  place.set("cpus", cpu_numbers_text(cpus_of_this_process()));
  Value places = Value::make_array();
  for (const GpuPlace& gpu : visible_gpus(openable_gpus(root), variable("CUDA_VISIBLE_DEVICES"))) {
    Value one = Value::make_table();
    one.set("address", gpu.address);
    one.set("cpus", cpu_numbers_text(gpu.cpus));
    places.push_back(std::move(one));
  }
  place.set("gpu_places", std::move(places));
  return place;
}

Value look_at_node(const DoctorOrder& order) {
  Value node = Value::make_table();
  utsname machine{};
  (void)::uname(&machine);
  node.set("arch", machine.machine);
  node.set("cpus", static_cast<std::int64_t>(::sysconf(_SC_NPROCESSORS_CONF)));
  const auto threads = read_file("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list");
  node.set("threads_per_core", threads.ok() ? std::max(1, count_of_list(*threads)) : -1);
  node.set("memory", static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE));
  const auto cgroup = read_file("/proc/self/cgroup");
  node.set("memory_limit", cgroup.ok() ? memory_limit(*cgroup, "/sys/fs/cgroup") : -1);
  node.set("shm", space_of("/dev/shm").all);
  node.set("shm_free", space_of("/dev/shm").free);
  if (!order.node_local.empty()) node.set("node_local", look_at_local_folder(order.node_local));
  return node;
}

}  // namespace longhaul
