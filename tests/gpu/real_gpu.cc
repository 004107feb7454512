#include "tests/gpu/real_gpu.h"

#include <cstdio>

#include "base/text/text.h"
#include "engine/ops/cuda/open_gpu.h"
#include "tests/support/emulated_gpu/test_gpu.h"

namespace longhaul::testing {
namespace {

std::weak_ptr<Gpu>& opened() {
  static std::weak_ptr<Gpu> gpu;
  return gpu;
}

}  // namespace

std::shared_ptr<Gpu> open_real_gpu(bool each_alone) {
  if (std::shared_ptr<Gpu> gpu = opened().lock()) return gpu;
  Result<std::unique_ptr<Gpu>> found =
      cuda::open_gpu_with(0, false, each_alone ? DeviceArena::Rule::each_alone() : DeviceArena::Rule());
  if (!found.ok()) {
    std::printf("skipped: %s\n", found.error().message().c_str());
    return nullptr;
  }
  std::shared_ptr<Gpu> gpu = std::move(*found);
  opened() = gpu;
  return gpu;
}

std::shared_ptr<Gpu> open_test_gpu() {
  std::shared_ptr<Gpu> gpu = open_real_gpu();
  LH_ASSERT(gpu != nullptr, "the GPU was there when the program began");
  return gpu;
}
const char* test_gpu_name() {
  return "GPU";
}

}  // namespace longhaul::testing
