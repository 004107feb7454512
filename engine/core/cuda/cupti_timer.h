// Kernel times from CUPTI's activity records, opened while the program runs (libcupti, part of the CUDA Toolkit).
// Records come in buffers that CUPTI fills on a thread of its own; each is read when CUPTI hands it back.
#pragma once

#include "engine/core/device/kernel_timer.h"

namespace longhaul {

// Errors (unavailable): the library is not found or lacks a function; another profiler listens already; the driver does
// not let it. Those before the first kernel are not seen. One at a time (a broken invariant otherwise).
Result<std::unique_ptr<KernelTimer>> make_cupti_timer();

}  // namespace longhaul
