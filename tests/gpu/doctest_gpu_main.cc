// main of the doctest programs that need a GPU: without one, 77 and the reason. --each-alone: memory for a sanitizer.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>

#include "tests/gpu/real_gpu.h"

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  bool each_alone = false;
  for (int i = 1; i < argc; ++i) each_alone |= std::strcmp(argv[i], "--each-alone") == 0;
  const std::shared_ptr<longhaul::Gpu> gpu = longhaul::testing::open_real_gpu(each_alone);
  if (!gpu) return longhaul::testing::kNoGpu;
  std::printf("on %s\n", gpu->device().name().c_str());
  return context.run();
}
