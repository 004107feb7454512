#include "orchestrator/preflight/engine_devices.h"

#include <memory>
#include <optional>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::int64_t build_deadline_ms = 20'000;
constexpr std::int64_t gpu_deadline_ms = 60'000;  // a driver that nobody has used for long takes its time

Result<std::string> engine_answer(const std::vector<std::string>& argv, std::int64_t deadline_ms) {
  SpawnSpec spec;
  spec.argv = argv;
  LH_TRY(const RunOutput output, run_captured(spec, deadline_ms));
  if (!output.status.success())
    return make_error(ErrorCode::unavailable,
                      format("longhaul-engine info: {}: {}", output.status.text(), trim(output.err)));
  return output.out;
}

// What stands behind "NAME: " in a line of the answer.
std::optional<std::string> fact_in(const std::string& answer, const std::string& name) {
  for (const std::string& line : split(answer, '\n'))
    if (starts_with(line, name + ": ")) return line.substr(name.size() + 2);
  return std::nullopt;
}

EngineDevices::Build ask_build(const std::string& engine) {
  const auto answer = engine_answer({engine, "info", "--only", "cuda"}, build_deadline_ms);
  if (!answer.ok()) return {EngineCuda::unknown, answer.error().message()};
  const auto cuda = fact_in(*answer, "cuda operations");
  if (!cuda) return {EngineCuda::unknown, "the installed engine does not say how it was built"};
  return {starts_with(*cuda, "built in") ? EngineCuda::built_in : EngineCuda::none, ""};
}

}  // namespace

EngineDevices devices_of_engine(const std::string& engine) {
  EngineDevices devices;
  const auto known = std::make_shared<std::optional<EngineDevices::Build>>();
  devices.build = [engine, known] {
    if (!*known) *known = ask_build(engine);
    return **known;
  };
  const auto driver = std::make_shared<std::optional<bool>>();
  devices.host_has_driver = [driver] {
    if (!*driver)
      *driver = file_exists("/dev/nvidiactl") || file_exists("/proc/driver/nvidia/version") || file_exists("/dev/dxg");
    return **driver;
  };
  devices.no_gpu_here = [engine](int ranks, bool shared) -> std::string {
    const auto answer = engine_answer(
        {engine, "info", "--only", "gpu", "--rank", std::to_string(ranks - 1), "--shared", shared ? "yes" : "no"},
        gpu_deadline_ms);
    if (!answer.ok()) return answer.error().message();
    const std::string state = fact_in(*answer, "gpu").value_or("the engine does not say");
    return starts_with(state, "usable") ? std::string() : state;
  };
  return devices;
}

}  // namespace longhaul
