// The part of gpu_bench about mixtures of experts: grouped products, and rows on their way to experts and back.
#pragma once

#include <functional>
#include <string>

#include "engine/core/tensor/compute_context.h"

namespace longhaul::gpu_bench {

// As BenchEntry has them.
using Measure = std::function<void(const std::string& name, double bytes, double flops, double bar,
                                   const std::function<void()>& operation)>;
void bench_experts(const ComputeContext& context, const Measure& measure);

}  // namespace longhaul::gpu_bench
