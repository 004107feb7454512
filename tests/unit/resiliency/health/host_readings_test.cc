// Memory, ports, clock, environment and disks: readings from folders of the test's own, and what they mean.
#include "resiliency/health/host_readings.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "base/files/files.h"
#include "base/text/text.h"
#include "resiliency/health/host_health.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

std::string names_of(const HealthFindings& findings) {
  std::vector<std::string> names;
  for (const HealthFinding& finding : findings)
    names.push_back((finding.device.empty() ? "" : finding.device + " ") + to_string(finding.fault));
  return join(names, ", ");
}

void put(const std::string& path, const std::string& text) {
  REQUIRE(make_directories(parent_path(path)).ok());
  REQUIRE(write_file_renamed(path, text).ok());
}

// A server that does not answer as long as nothing is there.
void ask_where_it_is(const char* path, FileSystemReading& reading) {
  while (::access(path, F_OK) != 0) ::pause();
  ask_file_system(path, reading);
}

constexpr const char* meminfo = "MemTotal:       1000000 kB\nMemFree:  10 kB\nMemAvailable:    500000 kB\n";
constexpr const char* pressure =
    "some avg10=0.00 avg60=55.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=12.50 avg300=0.00 total=1\n";

}  // namespace

TEST_CASE("the kernel's texts about memory are read, and absent ones are absent") {
  const MemoryReading reading = parse_memory(meminfo, pressure, "nr_free_pages 1\noom_kill 7\n");
  CHECK(reading.total_kib == 1000000);
  CHECK(reading.available_kib == 500000);
  CHECK(reading.full_pressure_pct == 12.5);
  CHECK(reading.oom_kills == 7U);
  const MemoryReading nothing = parse_memory("", "", "");
  CHECK(!nothing.oom_kills);
  CHECK(!nothing.full_pressure_pct);
  CHECK(judge_memory(nothing, nullptr).empty());
  CHECK(!parse_memory("", "", "xoom_kill 7\n").oom_kills);
}

TEST_CASE("little memory, waiting for memory, and kills are findings") {
  MemoryReading calm{1000, 500, 0.0, 7}, low{1000, 29, 0.0, 7}, waiting{1000, 500, 10.5, 7}, killed{1000, 500, 0.0, 8};
  CHECK(judge_memory(calm, &calm).empty());
  CHECK(names_of(judge_memory(low, &calm)) == "memory_low");
  CHECK(names_of(judge_memory(waiting, &calm)) == "memory_low");
  CHECK(names_of(judge_memory(killed, &calm)) == "out_of_memory");
  CHECK(judge_memory(killed, nullptr).empty());  // kills of before we looked
  CHECK(judge_memory({1000, 30, 0.0, 7}, &calm).empty());
}

TEST_CASE("ports of real devices are read, and what becomes of them is reported") {
  testing::Scratch scratch;
  const std::string net = scratch.path() + "/net/", ib = scratch.path() + "/infiniband/mlx5_0/ports/1/";
  put(net + "lo/operstate", "unknown\n");
  put(net + "eth0/operstate", "up\n");
  put(net + "eth0/carrier_down_count", "2\n");
  put(net + "eth0/device/x", "");
  put(ib + "state", "4: ACTIVE\n");
  put(ib + "counters/link_downed", "5\n");
  const auto before = read_ports(scratch.path());
  REQUIRE(before.size() == 2);
  CHECK(before[0].name == "eth0");
  CHECK(before[0].up);
  CHECK(before[0].downs == 2);
  CHECK(before[1].name == "mlx5_0/1");
  CHECK(before[1].up);
  CHECK(before[1].downs == 5);
  CHECK(judge_ports(before, before).empty());
  put(ib + "counters/link_downed", "7\n");
  CHECK(names_of(judge_ports(read_ports(scratch.path()), before)) == "mlx5_0/1 nic_flap");
  put(ib + "state", "1: DOWN\n");
  CHECK(names_of(judge_ports(read_ports(scratch.path()), before)) == "mlx5_0/1 nic_down");
  CHECK(judge_ports(read_ports(scratch.path()), read_ports(scratch.path())).empty());  // it was down before
  REQUIRE(remove_tree(net + "eth0").ok());
  CHECK(names_of(judge_ports(read_ports(scratch.path()), before)) == "eth0 nic_down, mlx5_0/1 nic_down");
  CHECK(read_ports("/nonexistent").empty());
}

TEST_CASE("a clock is off only by more than the way there and back explains") {
  CHECK(!judge_clock(10'000, 10'000, 0));
  CHECK(!judge_clock(10'000, 11'000, 0));
  CHECK(judge_clock(10'000, 11'001, 0));
  CHECK(judge_clock(10'000, 8'999, 0));
  CHECK(!judge_clock(10'000, 13'000, 2'000));
  CHECK(judge_clock(10'000, 13'001, 2'000));
  CHECK(judge_clock(10'000, 8'000, 2'000)->what == "the clock is at least 2.0 s ahead");
}

TEST_CASE("variables that are seldom meant are reported with what they do") {
  CHECK(judge_environment({{"HOME", "/x"},
                           {"NCCL_DEBUG", "WARN"},
                           {"CUDA_LAUNCH_BLOCKING", "0"},
                           {"LD_PRELOAD", ""},
                           {"OMP_NUM_THREADS", "8"},
                           {"TORCH_DISTRIBUTED_DEBUG", "INFO"}},
                          8)
            .empty());
  for (const auto& [name, value] : {std::pair("CUDA_LAUNCH_BLOCKING", "1"), std::pair("NCCL_DEBUG", "TRACE"),
                                    std::pair("TORCH_DISTRIBUTED_DEBUG", "DETAIL"), std::pair("LD_PRELOAD", "/x.so"),
                                    std::pair("NCCL_P2P_DISABLE", "1"), std::pair("OMP_NUM_THREADS", "9")}) {
    CAPTURE(name);
    const HealthFindings findings = judge_environment({{name, value}}, 8);
    CHECK(names_of(findings) == std::string(name) + " environment");
    CHECK(fit_to_work(findings));
  }
  CHECK(judge_environment({{"OMP_NUM_THREADS", "9"}}, 0).empty());
}

TEST_CASE("a file system that answers reports its room; a missing folder is a fault") {
  testing::Scratch scratch;
  FileSystemProbe here(scratch.path()), missing(scratch.path() + "/none");
  const FileSystemReading reading = here.look(10'000);
  CHECK(reading.answered);
  CHECK(reading.error == 0);
  CHECK(reading.total_bytes > 0);
  CHECK(missing.look(10'000).error == ENOENT);
  CHECK(names_of(judge_file_system(missing.look(10'000))) == scratch.path() + "/none file_system");
}

TEST_CASE("one that does not answer costs its deadline, is reported, and is asked again once the child is gone") {
  const testing::Scratch scratch;
  const std::string server = scratch.path() + "/server";
  FileSystemProbe probe(server, ask_where_it_is);
  const auto began = std::chrono::steady_clock::now();
  const FileSystemReading reading = probe.look(100);
  const double took_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  CHECK(!reading.answered);
  CHECK(took_s >= 0.09);
  CHECK(took_s < 10);
  CHECK(names_of(judge_file_system(reading)) == server + " file_system");
  REQUIRE(make_directories(server).ok());
  bool answers = false;
  for (int tries = 0; tries < 1000 && !answers; ++tries) {
    ::usleep(10'000);
    answers = probe.look(10'000).answered;
  }
  CHECK(answers);
}

TEST_CASE("room is judged by share and by size") {
  FileSystemReading reading{"/d", true, 0, 0, 100ULL << 30, 1000ULL << 30, 500, 1000};
  CHECK(judge_file_system(reading).empty());
  reading.free_bytes = 19ULL << 30;
  CHECK(names_of(judge_file_system(reading)) == "/d disk_low");
  reading.free_bytes = 0;
  CHECK(names_of(judge_file_system(reading)) == "/d disk_full");
  reading.free_bytes = 100ULL << 30, reading.free_inodes = 9;
  CHECK(names_of(judge_file_system(reading)) == "/d disk_low");
  reading.total_inodes = 0;
  CHECK(judge_file_system(reading).empty());
  CHECK(names_of(judge_shared_memory({"/dev/shm", true, 0, 0, 1 << 20, 1 << 30, 0, 0})) == "/dev/shm shm_full");
  CHECK(judge_shared_memory({"/dev/shm", true, 0, 0, 1 << 30, 1 << 30, 0, 0}).empty());
}

TEST_CASE("a site's own check: exit code 0 is healthy, what it says otherwise is reported, and it has a deadline") {
  HostHealthOptions options;
  options.nvml_path = options.shm_path = "";
  options.class_root = options.proc_root = "/nonexistent";
  options.site_check = {"true"};
  CHECK(HostHealth(options).look().empty());
  options.site_check = {"sh", "-c", "echo fan 3 stands still; exit 4"};
  const HealthFindings refused = HostHealth(options).look();
  CHECK(names_of(refused) == "sh site_check");
  CHECK(refused.at(0).what == "exit code 4: fan 3 stands still");
  CHECK(!fit_to_work(refused));
  options.site_check = {"sleep", "60"};
  options.site_check_deadline_ms = 100;
  CHECK(names_of(HostHealth(options).look()) == "sleep site_check");
  options.site_check = {"/nonexistent/check"};
  CHECK(names_of(HostHealth(options).look()) == "/nonexistent/check site_check");
}

TEST_CASE("a finding becomes an observation of its host, for the verdict") {
  const HealthFinding finding =
      health_finding("memory", FaultClass::out_of_memory, "", "the kernel killed 1 processes");
  const FaultRecord record = verdict_of({observe_health(finding, "n1", 5)});
  CHECK(record.fault == FaultClass::out_of_memory);
  CHECK(record.host == "n1");
}

}  // namespace longhaul
