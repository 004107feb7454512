// longhaul-engine whose GPUs are emulated on the processor: what a user starts with device = "gpu", where there is
// none.
#include "engine/tasks/commands/command_line.h"
#include "tests/support/emulated_gpu/emulated_device.h"

int main(int argc, char** argv) {
  longhaul::EngineEnvironment around;
  around.open_gpu = [](int, bool) -> longhaul::Result<std::unique_ptr<longhaul::Gpu>> {
    return std::unique_ptr<longhaul::Gpu>(std::make_unique<longhaul::testing::EmulatedGpu>());
  };
  return longhaul::engine_main(argc, argv, around);
}
