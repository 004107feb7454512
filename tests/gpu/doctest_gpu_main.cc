// main of the doctest programs that need a GPU: without one, 77 and the reason.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>

#include "tests/gpu/real_gpu.h"

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const std::shared_ptr<longhaul::Gpu> gpu = longhaul::testing::open_real_gpu();
  if (!gpu) return longhaul::testing::kNoGpu;
  std::printf("on %s\n", gpu->device().name().c_str());
  return context.run();
}
