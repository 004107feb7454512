#include "engine/tasks/common/available_memory.h"

#include <charconv>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {

namespace {

constexpr std::int64_t no_limit = std::int64_t{1} << 60;  // what v1 says where there is none is a little less than 2^63

// The number that the text begins with; 0: none.
std::int64_t number_in(std::string_view text) {
  std::int64_t number = 0;
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return 0;
  std::from_chars(text.data() + first, text.data() + text.size(), number);
  return number;
}

void take(std::int64_t bytes, const std::string& from, AvailableMemory& least, bool momentary = false) {
  if (bytes > 0 && bytes < no_limit && (least.bytes == 0 || bytes < least.bytes)) least = {bytes, from, momentary};
}

// The group's limit and those of the groups that it lies in.
void take_group(const std::string& mount, std::string group, const char* file, const std::string& root,
                AvailableMemory& least) {
  for (;;) {
    const std::string path = mount + (group == "/" ? "" : group) + "/" + file;
    if (const auto text = read_file(root + path); text.ok())
      take(number_in(*text), "the control group's limit " + path, least);
    if (group.empty() || group == "/") return;
    group = group.substr(0, group.rfind('/'));
  }
}

}  // namespace

AvailableMemory available_memory(const SchedulerMemory& scheduler, const std::string& root) {
  constexpr std::int64_t mib = std::int64_t{1} << 20, kib = 1024;
  AvailableMemory least;
  take(scheduler.per_node_mib * mib, "Slurm's SLURM_MEM_PER_NODE", least);
  take(scheduler.per_cpu_mib * scheduler.cpus_on_node * mib, "Slurm's SLURM_MEM_PER_CPU", least);
  if (const auto groups = read_file(root + "/proc/self/cgroup"); groups.ok())
    for (const std::string& line : split(*groups, '\n')) {
      const auto first = line.find(':'), second = line.find(':', first + 1);
      if (first == std::string::npos || second == std::string::npos) continue;
      const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
      if (controllers.empty()) take_group("/sys/fs/cgroup", group, "memory.max", root, least);
      for (const std::string& controller : split(controllers, ','))
        if (controller == "memory") take_group("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes", root, least);
    }
  if (const auto info = read_file(root + "/proc/meminfo"); info.ok())
    for (const std::string& line : split(*info, '\n'))
      if (starts_with(line, "MemAvailable:"))
        take(number_in(std::string_view(line).substr(13)) * kib, "MemAvailable in /proc/meminfo", least, true);
  return least;
}

Status check_available(const std::function<AvailableMemory()>& look,
                       const std::function<Status(const AvailableMemory&)>& fits, const std::function<void()>& pause) {
  for (int looks = 1;; ++looks) {
    const AvailableMemory found = look();
    if (found.bytes == 0) return {};
    Status status = fits(found);
    if (status.ok() || !found.momentary || looks == memory_looks_max) return status;
    pause();
  }
}

}  // namespace longhaul
