#include "engine/tasks/common/available_memory.h"

#include <doctest/doctest.h>

#include "tests/support/plain_file.h"
#include "tests/support/scratch.h"

using namespace longhaul;

namespace {

// A machine's /proc and /sys in a folder.
struct PretendedMachine {
  testing::Scratch scratch;
  void has(const std::string& path, const std::string& text) {
    const std::string whole = scratch.path() + path;
    REQUIRE(make_directories(whole.substr(0, whole.rfind('/'))).ok());
    REQUIRE(write_plain(whole, text));
  }
};

}  // namespace

TEST_CASE("the smallest of all limits counts, and who set it is said") {
  PretendedMachine machine;
  const auto found = [&](const SchedulerMemory& scheduler = {}) {
    return available_memory(scheduler, machine.scratch.path());
  };
  CHECK(found().bytes == 0);
  machine.has("/proc/meminfo", "MemTotal:       65536 kB\nMemFree:   1 kB\nMemAvailable:   32768 kB\n");
  CHECK(found().bytes == 32768 * 1024);
  CHECK(found().from.find("MemAvailable") != std::string::npos);
  CHECK(found({16, 0, 0}).bytes == 16 << 20);
  CHECK(found({0, 4, 3}).bytes == 12 << 20);
  CHECK(found({0, 0, 3}).bytes == 32768 * 1024);  // Slurm's 0 is all of a node's

  machine.has("/proc/self/cgroup", "0::/job/step\n");
  machine.has("/sys/fs/cgroup/job/step/memory.max", "max\n");
  CHECK(found().bytes == 32768 * 1024);
  machine.has("/sys/fs/cgroup/job/memory.max", "1048576\n");  // of the group around it
  CHECK(found().bytes == 1048576);
  CHECK(found().from.find("/sys/fs/cgroup/job/memory.max") != std::string::npos);
}

TEST_CASE("limits of the first version of control groups count, too") {
  PretendedMachine machine;
  machine.has("/proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/slurm/job\n");
  machine.has("/sys/fs/cgroup/memory/slurm/job/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(available_memory({}, machine.scratch.path()).bytes == 0);
  machine.has("/sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", "2097152\n");
  CHECK(available_memory({}, machine.scratch.path()).bytes == 2097152);
}

TEST_CASE("memory that a launch is still giving back is waited for, a limit is not") {
  const auto fits = [](const AvailableMemory& found) -> Status {
    if (found.bytes >= 100) return {};
    return make_error(ErrorCode::unavailable, "too little in " + found.from);
  };
  int looks = 0, pauses = 0;
  const auto checked = [&](const std::function<AvailableMemory()>& look) {
    looks = pauses = 0;
    return check_available([&] { return ++looks, look(); }, fits, [&] { ++pauses; });
  };
  CHECK(checked([&] { return AvailableMemory{looks * 40, "MemAvailable", true}; }).ok());
  CHECK(looks == 3);
  CHECK(pauses == 2);
  CHECK(!checked([] { return AvailableMemory{99, "a limit", false}; }).ok());
  CHECK(pauses == 0);
  CHECK(!checked([] { return AvailableMemory{99, "MemAvailable", true}; }).ok());
  CHECK(looks == memory_looks_max);
  CHECK(pauses == memory_looks_max - 1);
  CHECK(checked([] { return AvailableMemory{}; }).ok());
}
