#include "tests/support/emulated_gpu/emulated_device.h"
#include "tests/support/emulated_gpu/test_gpu.h"

namespace longhaul::testing {

std::shared_ptr<Gpu> open_test_gpu() {
  return std::make_shared<EmulatedGpu>();
}
const char* test_gpu_name() {
  return "emulated GPU";
}

}  // namespace longhaul::testing
