// What holds of any library in NVML's place: of the simulated one here, and of the real one where a GPU is. The test
// `gpu_nvml_contract` (label gpu) runs these same cases with LONGHAUL_TEST_NVML=libnvidia-ml.so.1.
#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <set>

#include "base/files/files.h"
#include "resiliency/health/host_health.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

// The library under test. The simulated one says what a sound host says that has two GPUs at work.
class NvmlUnderTest {
 public:
  NvmlUnderTest() {
    if (const char* given = std::getenv("LONGHAUL_TEST_NVML")) {
      path = given;
      return;
    }
    std::string lines = "at 0 devices 2\n";
    for (const char* device : {"0", "1"})
      for (const char* said :
           {"temperature 61", "slowdown 87", "power 650000", "power_limit 700000", "clock 1700", "clock_max 1980",
            "busy 98", "reasons 4", "corrected 3", "uncorrected 0", "corrected_ever 30", "uncorrected_ever 1",
            "remapped 1", "recovery_action 0", "replay 0", "recovery 0", "crc 2", "crc_flit 1", "process 4242"})
        lines += std::string("at 0 device ") + device + " " + said + "\n";
    REQUIRE(write_file_renamed(scratch_.file("script"), lines).ok());
    ::setenv("FAKE_NVML_SCRIPT", scratch_.file("script").c_str(), 1);
  }
  ~NvmlUnderTest() {
    if (!std::getenv("LONGHAUL_TEST_NVML")) ::unsetenv("FAKE_NVML_SCRIPT");
  }
  NvmlUnderTest(const NvmlUnderTest&) = delete;
  NvmlUnderTest& operator=(const NvmlUnderTest&) = delete;

  NvmlLibrary open() const {
    auto opened = NvmlLibrary::open(path);
    REQUIRE_MESSAGE(opened.ok(), opened.error().message());
    return std::move(opened).value();
  }
  std::string path = LONGHAUL_BINARY_DIR "/bin/liblonghaul_fake_nvml.so";

 private:
  testing::Scratch scratch_;
};

// now >= before, where both are reported.
template <class Number>
bool not_below(const std::optional<Number>& now, const std::optional<Number>& before) {
  return !now || !before || *now >= *before;
}

}  // namespace

TEST_CASE("nvml contract: every GPU has an identity of its own, in the order of its index") {
  const NvmlUnderTest nvml;
  NvmlLibrary library = nvml.open();
  const std::vector<GpuReading> gpus = library.read();
  REQUIRE(!gpus.empty());
  std::set<std::string> uuids, places;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    CHECK(gpus[i].index == static_cast<int>(i));
    CHECK(!gpus[i].lost);
    CHECK(gpus[i].uuid.compare(0, 4, "GPU-") == 0);
    CHECK(gpus[i].pci.size() == 16);  // "00000000:41:00.0"
    uuids.insert(gpus[i].uuid), places.insert(gpus[i].pci);
  }
  CHECK(uuids.size() == gpus.size());
  CHECK(places.size() == gpus.size());
}

TEST_CASE("nvml contract: what is reported has its unit, and parts are no more than the whole") {
  const NvmlUnderTest nvml;
  NvmlLibrary library = nvml.open();
  for (const GpuReading& gpu : library.read()) {
    CAPTURE(gpu.uuid);
    // Every GPU that is made for this work reports these; without them the checks above them would be blind.
    REQUIRE(gpu.temperature_c);
    REQUIRE(gpu.power_mw);
    REQUIRE(gpu.sm_clock_mhz);
    REQUIRE(gpu.sm_clock_max_mhz);
    REQUIRE(gpu.clock_reasons);
    CHECK(*gpu.temperature_c > 0);
    CHECK(*gpu.temperature_c < 130);
    if (gpu.slowdown_c) CHECK(*gpu.slowdown_c > 50);
    CHECK(*gpu.power_mw > 1'000);  // milliwatts: from one watt to five kilowatts
    CHECK(*gpu.power_mw < 5'000'000);
    if (gpu.power_limit_mw) CHECK(*gpu.power_limit_mw > 10'000);
    CHECK(*gpu.sm_clock_max_mhz > 200);
    CHECK(*gpu.sm_clock_max_mhz < 10'000);
    CHECK(*gpu.sm_clock_mhz <= *gpu.sm_clock_max_mhz);
    if (gpu.busy_pct) CHECK(*gpu.busy_pct <= 100);
    CHECK(not_below(gpu.corrected_ever, gpu.corrected));
    CHECK(not_below(gpu.uncorrected_ever, gpu.uncorrected));
    if (gpu.recovery_action) CHECK(*gpu.recovery_action >= 0);
    if (gpu.recovery_action) CHECK(*gpu.recovery_action < 16);
    for (const GpuProcess& process : gpu.processes) CHECK(process.pid > 0);
  }
}

TEST_CASE("nvml contract: counters never step back between two readings, and the devices stay the same") {
  const NvmlUnderTest nvml;
  NvmlLibrary library = nvml.open();
  const std::vector<GpuReading> before = library.read(), now = library.read();
  REQUIRE(before.size() == now.size());
  for (std::size_t i = 0; i < now.size(); ++i) {
    CHECK(now[i].uuid == before[i].uuid);
    CHECK(not_below(now[i].corrected, before[i].corrected));
    CHECK(not_below(now[i].uncorrected, before[i].uncorrected));
    CHECK(not_below(now[i].corrected_ever, before[i].corrected_ever));
    CHECK(not_below(now[i].uncorrected_ever, before[i].uncorrected_ever));
    CHECK(not_below(now[i].remapped_rows, before[i].remapped_rows));
    CHECK(not_below(now[i].nvlink_replays, before[i].nvlink_replays));
    CHECK(not_below(now[i].nvlink_recoveries, before[i].nvlink_recoveries));
    CHECK(not_below(now[i].nvlink_crc, before[i].nvlink_crc));
  }
}

TEST_CASE("nvml contract: a wait for events ends in time, and without an XID says so") {
  const NvmlUnderTest nvml;
  NvmlLibrary library = nvml.open();
  const auto began = std::chrono::steady_clock::now();
  const auto event = library.wait_event(100);
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(5));
  if (event) CHECK(event->xid > 0);
}

TEST_CASE("nvml contract: two may be open at once, and one that was closed is opened again") {
  const NvmlUnderTest nvml;
  std::size_t count = 0;
  {
    NvmlLibrary one = nvml.open(), other = nvml.open();
    count = one.read().size();
    CHECK(other.read().size() == count);
  }
  CHECK(nvml.open().read().size() == count);
}

TEST_CASE("nvml contract: a look at the host finds all of its GPUs, and this process is on none of them") {
  const NvmlUnderTest nvml;
  HostHealthOptions options;
  options.nvml_path = nvml.path;
  options.shm_path = "";
  options.class_root = "/nonexistent";
  options.job_pids = [] { return std::set<int>{static_cast<int>(::getpid())}; };
  options.foreign_settle_ms = 0;
  HostHealth host(options);
  for (int look = 0; look < 2; ++look)
    for (const HealthFinding& finding : host.look()) {
      CAPTURE(finding.what);
      CHECK(finding.fault != FaultClass::gpu_driver);
      CHECK(finding.fault != FaultClass::gpu_lost);
    }
  NvmlLibrary library = nvml.open();
  const std::vector<GpuReading> gpus = library.read();
  CHECK(host.gpus() == gpus.size());
  for (const GpuReading& gpu : gpus)
    for (const GpuProcess& process : gpu.processes) CHECK(process.pid != ::getpid());
}

}  // namespace longhaul
