#pragma once

#include <memory>

#include "engine/core/tensor/range_marks.h"

namespace longhaul {

// NVTX is headers alone: a profiler that starts this program puts itself behind them. Null where they were not found.
std::unique_ptr<RangeMarks> make_nvtx_marks();

}  // namespace longhaul
