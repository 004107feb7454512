// Who uses the GPUs: the job with all that it has started, and who is foreign.
#include "resiliency/health/gpu_users.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>

#include "base/files/files.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

GpuReading used_gpu(int index, const std::vector<int>& pids) {
  GpuReading gpu;
  gpu.index = index;
  for (const int pid : pids) gpu.processes.push_back({pid, 1 << 30});
  return gpu;
}

// 10 is the rank; 11 and 12 come from it, 20 and 21 are of somebody else.
const std::vector<HostProcess> host_of_two = {{1, 0, "init"},     {10, 1, "engine"}, {11, 10, "sh"},
                                              {12, 11, "python"}, {20, 1, "python"}, {21, 20, "python"}};

}  // namespace

TEST_CASE("gpu users: descendants are found at any depth, also where numbers lead in a circle") {
  CHECK(with_descendants({10}, host_of_two) == std::set<int>{10, 11, 12});
  CHECK(with_descendants({10, 20}, host_of_two) == std::set<int>{10, 11, 12, 20, 21});
  CHECK(with_descendants({99}, host_of_two) == std::set<int>{99});
  CHECK(with_descendants({}, host_of_two).empty());
  CHECK(with_descendants({5}, {{5, 6, "a"}, {6, 5, "b"}}) == std::set<int>{5, 6});
}

TEST_CASE("gpu users: a rank and what it has started may use a GPU of the job, others may not") {
  GpuUsers users;
  const std::vector<GpuReading> gpus = {used_gpu(0, {10, 12}), used_gpu(1, {21})};
  CHECK(foreign_users(gpus, users.judge(gpus, {10}, host_of_two, 2, 0)) == std::set<int>{21});
  CHECK(foreign_users(gpus, users.judge(gpus, {10, 20}, host_of_two, 2, 0)).empty());
}

TEST_CASE("gpu users: before a rank runs everybody on a GPU of the job is foreign") {
  GpuUsers users;
  const std::vector<GpuReading> gpus = {used_gpu(0, {}), used_gpu(1, {20})};
  CHECK(foreign_users(gpus, users.judge(gpus, {}, host_of_two, 2, 0)) == std::set<int>{20});
}

TEST_CASE("gpu users: where a host shows more GPUs than were asked for, those that the job uses are its own") {
  GpuUsers users;
  const std::vector<GpuReading> gpus = {used_gpu(0, {12}), used_gpu(1, {20})};
  for (const int asked : {1, -1}) {
    CHECK(foreign_users(gpus, users.judge(gpus, {}, host_of_two, asked, 0)).empty());
    CHECK(foreign_users(gpus, users.judge(gpus, {10}, host_of_two, asked, 0)).empty());
  }
  const std::vector<GpuReading> shared = {used_gpu(0, {12, 21}), used_gpu(1, {20})};
  CHECK(foreign_users(shared, users.judge(shared, {10}, host_of_two, 1, 0)) == std::set<int>{21});
}

TEST_CASE("gpu users: a rank that has ended has 50 s to give its memory back") {
  GpuUsers users;
  const std::vector<GpuReading> gpus = {used_gpu(0, {12})};
  std::vector<HostProcess> left = host_of_two;
  CHECK(foreign_users(gpus, users.judge(gpus, {10}, left, 1, 1'000)).empty());
  std::erase_if(left, [](const HostProcess& one) { return one.pid == 10 || one.pid == 11; });
  CHECK(foreign_users(gpus, users.judge(gpus, {}, left, 1, 51'000)).empty());
  CHECK(foreign_users(gpus, users.judge(gpus, {}, left, 1, 51'001)) == std::set<int>{12});
}

TEST_CASE("gpu users: the daemon that shares a GPU, and whom this host does not show, are let pass") {
  GpuUsers users;
  std::vector<HostProcess> all = host_of_two;
  all.push_back({30, 1, "nvidia-cuda-mps"});  // as the kernel cuts its name
  const std::vector<GpuReading> gpus = {used_gpu(0, {30, 4'000'000})};
  CHECK(foreign_users(gpus, users.judge(gpus, {10}, all, 1, 0)).empty());
}

TEST_CASE("gpu users: processes are read from /proc, whatever their names, and what is no process is passed over") {
  const testing::Scratch scratch;
  const auto add = [&](const std::string& name, const std::string& stat) {
    REQUIRE(make_directories(scratch.file(name)).ok());
    REQUIRE(write_file_renamed(scratch.file(name) + "/stat", stat).ok());
  };
  add("7", "7 (a) b) c) S 3 7 7 0 -1\n");
  add("8", "8 (x");
  add("9", "");
  add("self", "5 (self) S 1 1\n");
  const std::vector<HostProcess> read = read_host_processes(scratch.path());
  REQUIRE(read.size() == 1);
  CHECK(read[0].pid == 7);
  CHECK(read[0].parent == 3);
  CHECK(read[0].name == "a) b) c");
  CHECK(read_host_processes("/nonexistent").empty());
  const std::vector<HostProcess> here = read_host_processes("/proc");
  const auto own = std::find_if(here.begin(), here.end(), [](const HostProcess& p) { return p.pid == ::getpid(); });
  REQUIRE(own != here.end());
  CHECK(own->parent == ::getppid());
}

}  // namespace longhaul
