// The GPU of a test program: an emulated one, or, in the programs of tests/gpu, that of this machine. Which one is
// decided by what the program is linked with, so that the same tests run on both.
#pragma once

#include <memory>

#include "engine/ops/gpu.h"
#include "tests/support/long_run.h"

namespace longhaul::testing {

// Emulated: a new one each time. Real: the one that the program has opened, as long as somebody holds it.
std::shared_ptr<Gpu> open_test_gpu();
const char* test_gpu_name();  // for messages: "emulated GPU", "GPU"

// For how long a training on it follows the processor's: nothing new happens after the moments have been used twice.
inline int curve_steps() {
  return long_run() ? 20 : 8;
}

}  // namespace longhaul::testing
