// Products of eight bits and the casts around them, and what is fused into products, beside the same in two steps: a
// block of gpu_bench. Sizes are those of Llama-2 7B and of GPT-2 1.5B, with 4,096 tokens.
#pragma once

#include <functional>
#include <string>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul::gpu_bench {

struct ProductsBench {
  const ComputeContext& context;
  // Memory of the device: with numbers that are no zeros; with zeros.
  std::function<Tensor(DType, std::int64_t)> filled, empty;
  std::function<void(const std::string& name, double bytes, double flops, const std::function<void()>& operation)>
      measure;
};

// What the GPU does not multiply is left out, and said.
void bench_products(const ProductsBench& bench);

}  // namespace longhaul::gpu_bench
