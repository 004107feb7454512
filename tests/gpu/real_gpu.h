// The GPU of this machine, for the programs of this folder.
#pragma once

#include <memory>

#include "engine/ops/gpu.h"

namespace longhaul::testing {

// Exit code of a program that has no GPU: skipped, for the reason that it prints.
inline constexpr int kNoGpu = 77;

// Opens it, or prints why not and gives null. open_test_gpu() gives the same as long as somebody holds it. One thread.
// each_alone: every piece of its memory is one that CUDA knows, so that compute-sanitizer sees what goes beyond it.
std::shared_ptr<Gpu> open_real_gpu(bool each_alone = false);

}  // namespace longhaul::testing
