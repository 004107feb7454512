// A training that is warm takes no memory from the driver of its GPU and gives none back: each such call may wait for
// all that is under way there.
#ifndef __SANITIZE_ADDRESS__  // which does not know the stacks of the emulation's fibers
#include <doctest/doctest.h>

#include "tests/support/emulated_gpu/emulated_device.h"
#include "tests/unit/engine/train/training_setup.h"

using namespace longhaul;

TEST_CASE("after the first step of a training nothing is taken from the driver: dense, recomputed, experts") {
  test::SetupOptions recomputed, experts(test::training_mixtral_shape());
  recomputed.recompute = recompute_from({{"block"}, 0}).value();
  for (test::SetupOptions options : {test::SetupOptions(), recomputed, experts}) {
    CAPTURE(options.shape.architecture);
    testing::EmulatedGpu gpu;
    options.gpu = &gpu;
    test::TrainingSetup setup(4, 20, 2, nullptr, DType::bf16, 8, options);
    REQUIRE(setup.trainer.step().ok());
    const std::int64_t warm = gpu.device().driver_allocations();
    CHECK(warm > 0);
    for (int step = 0; step < 3; ++step) REQUIRE(setup.trainer.step().ok());
    CHECK(gpu.device().driver_allocations() == warm);
  }
}
#endif
