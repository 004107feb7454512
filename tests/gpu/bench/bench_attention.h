// Attention in bf16 by each implementation that the GPU has: the own kernels beside cuDNN's, deterministic and not.
#pragma once

#include <functional>
#include <vector>

#include "engine/ops/gpu.h"
#include "tests/gpu/bench/bench_entry.h"

namespace longhaul::gpu_bench {

// `seconds_of` times a call. What cuDNN does not take is left out, with its reason on the standard output. Afterwards
// attentions take what they take by default.
std::vector<BenchEntry> bench_attention(Gpu& gpu,
                                        const std::function<double(const std::function<void()>&)>& seconds_of);

}  // namespace longhaul::gpu_bench
