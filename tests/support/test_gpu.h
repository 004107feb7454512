// The GPU of a test program: an emulated one, or, in the programs of tests/gpu, that of this machine. Which one is
// decided by what the program is linked with, so that the same tests run on both.
#pragma once

#include <cstdlib>
#include <memory>

#include "engine/ops/gpu.h"

namespace longhaul::testing {

// Emulated: a new one each time. Real: the one that the program has opened, as long as somebody holds it.
std::shared_ptr<Gpu> open_test_gpu();
const char* test_gpu_name();  // for messages: "emulated GPU", "GPU"

// For how long a training on it follows the processor's: 20 steps on a real one, 8 on an emulated one, where nothing
// new happens after the moments have been used twice; $LONGHAUL_CURVE_STEPS (the slow test gpu_curves_long).
inline int curve_steps() {
#ifdef LONGHAUL_REAL_GPU
  return 20;
#else
  const char* given = std::getenv("LONGHAUL_CURVE_STEPS");
  return given ? std::atoi(given) : 8;
#endif
}

}  // namespace longhaul::testing
