// What a reading of a GPU means.
#include "resiliency/health/gpu_health.h"

#include <doctest/doctest.h>

#include <functional>

#include "base/text/text.h"

namespace longhaul {
namespace {

GpuReading sound_gpu() {
  GpuReading gpu;
  gpu.index = 3;
  gpu.temperature_c = 60;
  gpu.slowdown_c = 87;
  gpu.clock_reasons = 0x4;  // power cap: normal under load
  gpu.corrected = gpu.uncorrected = gpu.corrected_ever = gpu.uncorrected_ever = 0;
  gpu.remapped_rows = 2;
  gpu.recovery_action = 0;
  gpu.nvlink_replays = gpu.nvlink_recoveries = 0;
  return gpu;
}

std::string classes_of(const HealthFindings& findings) {
  std::vector<std::string> names;
  for (const HealthFinding& finding : findings) names.push_back(to_string(finding.fault));
  return join(names, " ");
}

}  // namespace

TEST_CASE("a sound GPU has no findings, and neither has one that reports nothing") {
  const GpuReading sound = sound_gpu();
  CHECK(classes_of(judge_gpu(sound, nullptr, nullptr)) == "");
  CHECK(classes_of(judge_gpu(sound, &sound, nullptr)) == "");
  CHECK(classes_of(judge_gpu(GpuReading{}, nullptr, nullptr)) == "");
}

TEST_CASE("each thing that is wrong has its class") {
  struct Case {
    const char* what;
    std::function<void(GpuReading&)> change;
    const char* first;  // classes at the first look
    const char* later;  // with a sound reading before
  };
  const Case cases[] = {
      {"lost", [](GpuReading& g) { g.lost = true, g.recovery_action = 2; }, "gpu_lost", "gpu_lost"},
      {"reset", [](GpuReading& g) { g.recovery_action = 1; }, "gpu_needs_reset", "gpu_needs_reset"},
      {"reboot", [](GpuReading& g) { g.recovery_action = 2; }, "gpu_needs_reboot", "gpu_needs_reboot"},
      {"remap", [](GpuReading& g) { g.remap_pending = true; }, "gpu_remap_pending", "gpu_remap_pending"},
      {"remap", [](GpuReading& g) { g.remap_failed = true; }, "gpu_remap_failed", "gpu_remap_failed"},
      {"ten rows", [](GpuReading& g) { g.remapped_rows = 10; }, "", ""},
      {"eleven rows", [](GpuReading& g) { g.remapped_rows = 11; }, "gpu_memory_degrading", "gpu_memory_degrading"},
      {"old errors are a warning, new ones a fault", [](GpuReading& g) { g.uncorrected = 1; }, "gpu_memory_degrading",
       "gpu_memory_error"},
      {"counted twice, reported once", [](GpuReading& g) { g.uncorrected = g.uncorrected_ever = 1; },
       "gpu_memory_degrading", "gpu_memory_error"},
      {"of another driver's time", [](GpuReading& g) { g.uncorrected_ever = 1; }, "", "gpu_memory_degrading"},
      {"heat", [](GpuReading& g) { g.clock_reasons = 0x44; }, "gpu_slowed", "gpu_slowed"},
      {"slowdown", [](GpuReading& g) { g.clock_reasons = 0x8; }, "gpu_slowed", "gpu_slowed"},
      {"brake", [](GpuReading& g) { g.clock_reasons = 0x80; }, "gpu_slowed", "gpu_slowed"},
      {"software's own limits", [](GpuReading& g) { g.clock_reasons = 0x1 | 0x2 | 0x4 | 0x10 | 0x20; }, "", ""},
      {"hot", [](GpuReading& g) { g.temperature_c = 87; }, "gpu_slowed", "gpu_slowed"},
      {"warm", [](GpuReading& g) { g.temperature_c = 86; }, "", ""},
  };
  const GpuReading sound = sound_gpu();
  for (const Case& c : cases) {
    CAPTURE(c.what);
    GpuReading gpu = sound;
    c.change(gpu);
    CHECK(classes_of(judge_gpu(gpu, nullptr, nullptr)) == c.first);
    CHECK(classes_of(judge_gpu(gpu, &sound, nullptr)) == c.later);
  }
}

TEST_CASE("a counter that begins again is no growth") {
  GpuReading before = sound_gpu();
  before.uncorrected = 5;
  CHECK(classes_of(judge_gpu(sound_gpu(), &before, nullptr)) == "");
}

TEST_CASE("processes are foreign only where it is known which are ours") {
  GpuReading gpu = sound_gpu();
  gpu.processes = {{100, 1 << 20}, {200, 1 << 20}};
  const std::set<int> one = {100}, both = {100, 200}, none;
  CHECK(classes_of(judge_gpu(gpu, nullptr, nullptr)) == "");
  CHECK(classes_of(judge_gpu(gpu, nullptr, &both)) == "");
  CHECK(classes_of(judge_gpu(gpu, nullptr, &one)) == "gpu_in_use");
  CHECK(classes_of(judge_gpu(gpu, nullptr, &none)) == "gpu_in_use gpu_in_use");
}

TEST_CASE("links are bad when more than 15 of the last 30 readings had errors") {
  GpuReading quiet = sound_gpu(), noisy = sound_gpu();
  noisy.nvlink_replays = 1;
  NvlinkWindow window;
  for (int i = 0; i < 15; ++i) window.add(noisy, quiet);
  for (int i = 0; i < 15; ++i) window.add(quiet, quiet);
  CHECK(window.flagged() == 15);
  CHECK(!window.bad());
  window.add(noisy, quiet);  // the oldest of the noisy ones leaves
  CHECK(!window.bad());
  for (int i = 0; i < 15; ++i) window.add(noisy, quiet);
  CHECK(window.bad());
  for (int i = 0; i < 30; ++i) window.add(quiet, quiet);
  CHECK(window.flagged() == 0);
}

}  // namespace longhaul
