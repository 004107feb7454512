// What several readings of a GPU mean together.
#include "resiliency/health/gpu_trend.h"

#include <doctest/doctest.h>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::int64_t look_ms = 30'000;

GpuReading working_gpu() {
  GpuReading gpu;
  gpu.index = 2;
  gpu.power_mw = 650'000, gpu.power_limit_mw = 700'000;
  gpu.sm_clock_mhz = 1'700, gpu.sm_clock_max_mhz = 1'980;
  gpu.clock_reasons = 0, gpu.busy_pct = 98;
  gpu.corrected = gpu.corrected_ever = gpu.uncorrected = gpu.uncorrected_ever = 0;
  gpu.nvlink_replays = gpu.nvlink_recoveries = gpu.nvlink_crc = 0;
  return gpu;
}

std::string found_in(const HealthFindings& findings) {
  std::vector<std::string> names;
  for (const HealthFinding& finding : findings)
    names.push_back(format("{} {} {}", finding.check, to_string(finding.fault), to_string(finding.severity)));
  return join(names, ", ");
}

}  // namespace

TEST_CASE("gpu trend: a GPU that works, and one that reports nothing, have no findings") {
  GpuTrend working, silent;
  for (int i = 0; i < 50; ++i) {
    CHECK(found_in(working.add(working_gpu(), i * look_ms)) == "");
    CHECK(found_in(silent.add(GpuReading{}, i * look_ms)) == "");
  }
}

TEST_CASE("gpu trend: corrected errors are reported when ten came within an hour, and not when they come slowly") {
  GpuTrend trend;
  GpuReading gpu = working_gpu();
  gpu.corrected = gpu.corrected_ever = 500;  // what was before the first look counts for nothing
  CHECK(found_in(trend.add(gpu, 0)) == "");
  gpu.corrected = gpu.corrected_ever = 509;
  CHECK(found_in(trend.add(gpu, look_ms)) == "");
  gpu.corrected = gpu.corrected_ever = 510;
  const HealthFindings reported = trend.add(gpu, 2 * look_ms);
  CHECK(found_in(reported) == "ecc gpu_memory_degrading warning");
  CHECK(reported.at(0).device == "GPU 2");
  CHECK(reported.at(0).what == "10 corrected memory errors within 1h 00m, 510 in its life");
  // An hour after the nine the tenth is alone.
  CHECK(found_in(trend.add(gpu, look_ms + 3'600'000)) == "ecc gpu_memory_degrading warning");
  CHECK(found_in(trend.add(gpu, look_ms + 3'600'001)) == "");
  GpuTrend slow;
  for (int i = 0; i < 100; ++i) {
    gpu.corrected = gpu.corrected_ever = 500 + i;
    CHECK(found_in(slow.add(gpu, i * 600'000)) == "");  // six an hour
  }
}

TEST_CASE("gpu trend: the count of a GPU's life reports errors that a driver, loaded anew, has not counted") {
  GpuTrend trend;
  GpuReading gpu = working_gpu();
  gpu.corrected = 400, gpu.corrected_ever = 1'000;
  CHECK(found_in(trend.add(gpu, 0)) == "");
  gpu.corrected = 3, gpu.corrected_ever = 1'012;
  CHECK(found_in(trend.add(gpu, look_ms)) == "ecc gpu_memory_degrading warning");
}

TEST_CASE("gpu trend: checksum errors of links are reported from a hundred a second on") {
  GpuTrend trend;
  GpuReading gpu = working_gpu();
  CHECK(found_in(trend.add(gpu, 0)) == "");
  gpu.nvlink_crc = 2'999;
  CHECK(found_in(trend.add(gpu, 30'000)) == "");
  gpu.nvlink_crc = 2'999 + 3'000;
  CHECK(found_in(trend.add(gpu, 60'000)) == "nvlink nvlink_errors warning");
  CHECK(found_in(trend.add(gpu, 90'000)) == "");
  gpu.nvlink_crc = 0;  // loaded anew
  CHECK(found_in(trend.add(gpu, 120'000)) == "");
}

TEST_CASE("gpu trend: links with errors in more than half of the readings are a fault") {
  GpuTrend trend;
  GpuReading gpu = working_gpu();
  std::string reported;
  for (int i = 0; i <= 16; ++i) {
    CHECK(reported == "");
    gpu.nvlink_replays = i;
    reported = found_in(trend.add(gpu, i * look_ms));
  }
  CHECK(reported == "nvlink nvlink error");
}

TEST_CASE("gpu trend: a low clock is reported after three looks of a busy GPU that says no reason, and only then") {
  const auto after_looks = [](int looks, auto change) {
    GpuTrend trend;
    GpuReading gpu = working_gpu();
    gpu.sm_clock_mhz = 1'484;  // 74.9 % of the maximum
    change(gpu);
    std::string reported;
    for (int i = 0; i < looks; ++i) reported = found_in(trend.add(gpu, i * look_ms));
    return reported;
  };
  const auto as_it_is = [](GpuReading&) {};
  CHECK(after_looks(2, as_it_is) == "");
  CHECK(after_looks(3, as_it_is) == "gpu_clock gpu_slowed warning");
  CHECK(after_looks(9, [](GpuReading& g) { g.sm_clock_mhz = 1'486; }) == "");
  CHECK(after_looks(9, [](GpuReading& g) { g.busy_pct = 49; }) == "");
  CHECK(after_looks(9, [](GpuReading& g) { g.busy_pct.reset(); }) == "");
  CHECK(after_looks(9, [](GpuReading& g) { g.clock_reasons.reset(); }) == "");
  // Idle, locked by an administrator's setting, at its power limit: reasons that it gives.
  for (const unsigned long long reason : {0x1, 0x2, 0x4})
    CHECK(after_looks(9, [&](GpuReading& g) { g.clock_reasons = reason; }) == "");
  GpuTrend trend;
  GpuReading slow = working_gpu();
  slow.sm_clock_mhz = 600;
  for (int i = 0; i < 20; ++i)  // every third look it is as fast as ever
    CHECK(found_in(trend.add(i % 3 == 2 ? working_gpu() : slow, i * look_ms)) == "");
}

TEST_CASE("gpu trend: power at its limit for three looks is a note, for it is no fault") {
  GpuTrend trend;
  GpuReading gpu = working_gpu();
  gpu.power_mw = 700'000;
  CHECK(found_in(trend.add(gpu, 0)) == "");
  CHECK(found_in(trend.add(gpu, look_ms)) == "");
  const HealthFindings reported = trend.add(gpu, 2 * look_ms);
  CHECK(found_in(reported) == "gpu_power gpu_event note");
  CHECK(reported.at(0).what == "it draws 700 W, and may draw 700 W: its limit sets its speed");
  CHECK(fit_to_work(reported));
  gpu.power_mw = 699'999;
  CHECK(found_in(trend.add(gpu, 3 * look_ms)) == "");
  gpu.power_limit_mw = 0;  // none
  for (int i = 4; i < 9; ++i) CHECK(found_in(trend.add(gpu, i * look_ms)) == "");
}

TEST_CASE("gpu trend: what a lost GPU says counts for nothing") {
  GpuTrend trend;
  GpuReading gpu = working_gpu();
  CHECK(found_in(trend.add(gpu, 0)) == "");
  GpuReading lost = gpu;
  lost.lost = true, lost.corrected = 1'000'000, lost.nvlink_crc = 1'000'000'000;
  CHECK(found_in(trend.add(lost, look_ms)) == "");
  CHECK(found_in(trend.add(gpu, 2 * look_ms)) == "");
}

}  // namespace longhaul
