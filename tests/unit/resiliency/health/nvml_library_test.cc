// The loader of NVML, against the simulated library: what its script says is what is read.
#include "resiliency/health/nvml_library.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "resiliency/health/host_health.h"
#include "resiliency/inject/gpu_script.h"
#include "tests/support/observations.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

const std::string fake_nvml = LONGHAUL_BINARY_DIR "/bin/liblonghaul_fake_nvml.so";

// The script of the simulated devices; more lines may be added while it is loaded.
class NvmlScript {
 public:
  explicit NvmlScript(const std::string& lines) : path_(scratch_.path() + "/script") {
    add(lines);
    ::setenv("FAKE_NVML_SCRIPT", path_.c_str(), 1);
  }
  ~NvmlScript() { ::unsetenv("FAKE_NVML_SCRIPT"); }
  void add(const std::string& lines) {
    text_ += lines;
    REQUIRE(write_file_renamed(path_, text_).ok());
  }

 private:
  testing::Scratch scratch_;
  std::string path_, text_;
};

HostHealthOptions gpus_only(int expected = -1) {
  HostHealthOptions options;
  options.nvml_path = fake_nvml;
  options.gpus_expected = expected;
  options.shm_path = "";
  options.class_root = options.proc_root = "/nonexistent";
  return options;
}

std::string seen_by(HostHealth& host) {
  std::string text;
  for (const HealthFinding& finding : host.look())
    text += (text.empty() ? "" : ", ") + finding.device + " " + to_string(finding.fault);
  return text;
}

}  // namespace

TEST_CASE("a library that is not there is distinguished from one that does not work, and from another library") {
  const auto absent = NvmlLibrary::open("/nonexistent/libnvidia-ml.so.1");
  REQUIRE(!absent.ok());
  CHECK(absent.error().code == ErrorCode::not_found);
  NvmlScript script("at 0 init_error 18\n");
  const auto broken = NvmlLibrary::open(fake_nvml);
  REQUIRE(!broken.ok());
  CHECK(broken.error().code == ErrorCode::unavailable);
  CHECK(broken.error().what.find("version mismatch") != std::string::npos);
  const auto other = NvmlLibrary::open("libm.so.6");
  REQUIRE(!other.ok());
  CHECK(other.error().code == ErrorCode::corrupt);
}

TEST_CASE("what a device reports is read, and what it does not report is absent") {
  NvmlScript script(
      "at 0 devices 2\n"
      "at 0 device 1 temperature 71\nat 0 device 1 slowdown 87\nat 0 device 1 power 650000\n"
      "at 0 device 1 power_limit 700000\nat 0 device 1 clock 1755\nat 0 device 1 clock_max 1980\n"
      "at 0 device 1 reasons 4\nat 0 device 1 corrected 7\nat 0 device 1 uncorrected 2\n"
      "at 0 device 1 corrected_ever 70\nat 0 device 1 uncorrected_ever 20\nat 0 device 1 remapped 3\n"
      "at 0 device 1 pending 1\nat 0 device 1 recovery_action 1\nat 0 device 1 replay 5\nat 0 device 1 recovery 6\n"
      "at 0 device 1 crc 8\nat 0 device 1 crc_flit 30\nat 0 device 1 busy 97\nat 0 device 1 process 4242\n");
  auto library = NvmlLibrary::open(fake_nvml);
  REQUIRE(library.ok());
  const std::vector<GpuReading> gpus = library->read();
  REQUIRE(gpus.size() == 2);
  CHECK(!gpus[0].temperature_c);
  CHECK(!gpus[0].corrected);
  CHECK(!gpus[0].recovery_action);
  CHECK(!gpus[0].nvlink_replays);
  CHECK(gpus[0].uuid == "GPU-fake-0");
  const GpuReading& gpu = gpus[1];
  CHECK(gpu.index == 1);
  CHECK(gpu.pci == "00000000:42:00.0");
  CHECK(gpu.temperature_c == 71U);
  CHECK(gpu.slowdown_c == 87U);
  CHECK(gpu.power_mw == 650000U);
  CHECK(gpu.power_limit_mw == 700000U);
  CHECK(gpu.sm_clock_mhz == 1755U);
  CHECK(gpu.sm_clock_max_mhz == 1980U);
  CHECK(gpu.clock_reasons == 4ULL);
  CHECK(gpu.corrected == 7ULL);
  CHECK(gpu.uncorrected == 2ULL);
  CHECK(gpu.corrected_ever == 70ULL);
  CHECK(gpu.uncorrected_ever == 20ULL);
  CHECK(gpu.remapped_rows == 3U);
  CHECK(gpu.remap_pending);
  CHECK(!gpu.remap_failed);
  CHECK(gpu.recovery_action == 1);
  CHECK(gpu.nvlink_replays == 5ULL);
  CHECK(gpu.nvlink_recoveries == 6ULL);
  CHECK(gpu.nvlink_crc == 38ULL);  // of data and of flits
  CHECK(gpu.busy_pct == 97U);
  CHECK(!gpus[0].busy_pct);
  REQUIRE(gpu.processes.size() == 1);
  CHECK(gpu.processes[0].pid == 4242);
}

TEST_CASE("more processes than there was room for are all read") {
  std::string lines = "at 0 device 0 temperature 1\n";
  for (int pid = 1; pid <= 100; ++pid) lines += "at 0 device 0 process " + std::to_string(pid) + "\n";
  NvmlScript script(lines);
  auto library = NvmlLibrary::open(fake_nvml);
  REQUIRE(library.ok());
  CHECK(library->read().at(0).processes.size() == 100);
}

TEST_CASE("XIDs come once each, in order, with their device; without one the wait ends") {
  NvmlScript script("at 0 devices 4\nat 0 device 2 xid 79\nat 0.05 device 1 xid 13\n");
  auto library = NvmlLibrary::open(fake_nvml);
  REQUIRE(library.ok());
  const auto first = library->wait_event(5000), second = library->wait_event(5000), third = library->wait_event(10);
  REQUIRE(first);
  CHECK(first->device == 2);
  CHECK(first->xid == 79);
  REQUIRE(second);
  CHECK(second->device == 1);
  CHECK(second->xid == 13);
  CHECK(!third);
}

TEST_CASE("a host's looks follow what happens to its GPUs") {
  NvmlScript script("at 0 devices 2\nat 0 device 0 uncorrected 0\nat 0 device 1 uncorrected 3\n");
  HostHealth host(gpus_only(2));
  CHECK(seen_by(host) == "GPU 1 gpu_memory_degrading");
  CHECK(host.gpus() == 2);
  CHECK(seen_by(host) == "");
  script.add("at 0 device 1 uncorrected 4\nat 0 device 1 xid 48\n");
  CHECK(seen_by(host) == "GPU 1 gpu_memory_error, GPU 1 gpu_memory_error");
  CHECK(seen_by(host) == "");
  script.add("at 0 device 0 lost 1\nat 0 device 0 xid 79\n");
  CHECK(seen_by(host) == "GPU 0 gpu_lost, GPU 0 gpu_lost");
  CHECK(seen_by(host) == "GPU 0 gpu_lost");  // it stays lost; the event came once
}

TEST_CASE(
    "fewer GPUs than there should be, or none where some should be, is a finding; no library on a host without GPUs is "
    "none") {
  NvmlScript script("at 0 devices 3\n");
  HostHealth fewer(gpus_only(4));
  CHECK(seen_by(fewer) == " gpu_lost");
  HostHealthOptions none = gpus_only(4);
  none.nvml_path = "/nonexistent/libnvidia-ml.so.1";
  HostHealth without(none);
  CHECK(seen_by(without) == " gpu_driver");
  none.gpus_expected = -1;
  HostHealth cpu_only(none);
  CHECK(seen_by(cpu_only) == "");
  script.add("at 0 init_error 18\n");
  HostHealth mismatch(gpus_only());
  CHECK(seen_by(mismatch) == " gpu_driver");
}

TEST_CASE("a host's looks judge its processes by the newest message of who is the job's, and not before one") {
  const int own = static_cast<int>(::getpid()), other = static_cast<int>(::getppid());
  NvmlScript script("at 0 devices 1\nat 0 device 0 process " + std::to_string(own) + "\nat 0 device 0 process " +
                    std::to_string(other) + "\nat 0 device 0 process 2147483647\n");
  HostHealthOptions options = gpus_only(1);
  options.proc_root = "/proc";
  options.foreign_settle_ms = 300;
  std::optional<std::set<int>> reported;
  int asked = 0;
  options.job_pids = [&] { return ++asked, reported; };
  HostHealth host(options);
  CHECK(seen_by(host).find("gpu_in_use") == std::string::npos);
  reported = {own};  // with all that it has started; who is not shown here is let pass
  const std::string seen = seen_by(host);
  CHECK(seen.find("GPU 0 gpu_in_use") != std::string::npos);
  CHECK(seen.find("gpu_in_use") == seen.rfind("gpu_in_use"));
  asked = 0;
  CHECK(seen_by(host).find("gpu_in_use") != std::string::npos);
  CHECK(asked == 1);  // it is known by now: no second sight
  reported = {own, other};
  CHECK(seen_by(host).find("gpu_in_use") == std::string::npos);
}

TEST_CASE("a process that is the job's a moment later was not foreign") {
  const int own = static_cast<int>(::getpid());
  NvmlScript script("at 0 devices 1\nat 0 device 0 process " + std::to_string(own) + "\n");
  HostHealthOptions options = gpus_only(1);
  options.proc_root = "/proc";
  options.foreign_settle_ms = 60'000;
  int asked = 0;
  options.job_pids = [&] { return std::optional<std::set<int>>(++asked < 3 ? std::set<int>{} : std::set<int>{own}); };
  HostHealth host(options);
  CHECK(seen_by(host).find("gpu_in_use") == std::string::npos);
  CHECK(asked == 3);
}

TEST_CASE("corrected errors that grow come to a host's findings") {
  NvmlScript script("at 0 devices 1\nat 0 device 0 corrected 5\n");
  HostHealth host(gpus_only(1));
  CHECK(seen_by(host) == "");
  script.add("at 0 device 0 corrected 15\n");
  CHECK(seen_by(host) == "GPU 0 gpu_memory_degrading");
}

TEST_CASE("a host waits for the driver's events, which name the device and the XID") {
  NvmlScript script("at 0 devices 2\n");
  HostHealth host(gpus_only(2));
  CHECK(seen_by(host) == "");
  CHECK(host.wait(20).empty());
  script.add("at 0 device 1 xid 79\n");
  const HealthFindings reported = host.wait(2000);
  REQUIRE(reported.size() == 1);
  CHECK(reported[0].fault == FaultClass::gpu_lost);
  CHECK(reported[0].device == "GPU 1");
  CHECK(reported[0].xid == 79);
  CHECK(observe_health(reported[0], "n1", 5).what == testing::observe_xid("n1", 1, 79, 5).what);
}

TEST_CASE("an injected XID and a storm of memory errors are what the simulated devices then say") {
  NvmlScript script("at 0 devices 2\nat 0 device 1 corrected 5\n");
  const auto library = NvmlLibrary::open(fake_nvml);
  REQUIRE(library.ok());
  const std::string path = library->script();
  REQUIRE(file_exists(path));
  const std::int64_t now_ms = SystemClock().wall_ms();
  FaultRequest xid{"xid", 0};
  xid.xid = 79;
  // An hour ago nobody listened.
  REQUIRE(append_to_gpu_script(path, gpu_fault_lines(xid, 1), now_ms - 3'600'000).ok());
  HostHealth host(gpus_only());
  CHECK(seen_by(host).empty());
  CHECK(host.gpu_script() == path);
  REQUIRE(append_to_gpu_script(path, gpu_fault_lines(xid, 1), SystemClock().wall_ms()).ok());
  CHECK(seen_by(host) == "GPU 1 gpu_lost");
  CHECK(seen_by(host).empty());

  FaultRequest storm{"ecc_storm", 0};
  storm.lasts = {0.4};
  const std::string lines = gpu_fault_lines(storm, 0);
  REQUIRE(append_to_gpu_script(path, lines, SystemClock().wall_ms()).ok());
  CHECK(seen_by(host) == "GPU 0 gpu_memory_error");  // the event; its counters are there for the first time
  REQUIRE(append_to_gpu_script(path, lines, SystemClock().wall_ms()).ok());
  // The event, that they have grown, and the corrected ones beside them.
  CHECK(seen_by(host) == "GPU 0 gpu_memory_error, GPU 0 gpu_memory_error, GPU 0 gpu_memory_degrading");

  auto again = NvmlLibrary::open(fake_nvml);
  REQUIRE(again.ok());
  CHECK(again->read().at(1).corrected == 5);
  CHECK(again->read().at(0).corrected == 800);
  CHECK(append_to_gpu_script("/nonexistent/script", lines, now_ms).error().code == ErrorCode::not_found);
  CHECK(append_to_gpu_script("", lines, now_ms).error().hint.find("FAKE_NVML_SCRIPT") != std::string::npos);
}

TEST_CASE("a storm of memory errors grows for as long as it lasts, and is reported in a bounded number of lines") {
  FaultRequest storm{"ecc_storm", 0};
  storm.lasts = {3};
  CHECK(gpu_fault_lines(storm, 2) ==
        "0 device 2 xid 95\n"
        "0.000 device 2 corrected +1000\n0.000 device 2 uncorrected +8\n"
        "1.000 device 2 corrected +1000\n1.000 device 2 uncorrected +8\n"
        "2.000 device 2 corrected +1000\n2.000 device 2 uncorrected +8\n");
  storm.lasts = {3600};
  const std::string longest = gpu_fault_lines(storm, 2);
  CHECK(std::count(longest.begin(), longest.end(), '\n') == 121);
  CHECK(gpu_fault_lines({"SIGKILL", 0}, 2).empty());
}

}  // namespace longhaul
