// Token-by-token generation beside what the memory allows: each token reads every weight and the keys and values of its
// text once.
#pragma once

#include <string>
#include <vector>

#include "contracts/model/model_shape.h"
#include "engine/ops/gpu.h"
#include "tests/gpu/bench/bench_entry.h"

namespace longhaul::gpu_bench {

struct DecodeBench {
  std::string name;
  ModelShape shape;
  std::int64_t context = 0;  // tokens that are there already
  int steps = 0;
  double bar = 0;  // with graphs
};
// One sequence in bf16, its logits copied to the host: with graphs, and without. The weights are filled on the device.
std::vector<BenchEntry> measure_decode(Gpu& gpu, const DecodeBench& bench);

// Llama-3 8B after 1,024 tokens; bar: 75 % of the bandwidth.
std::vector<BenchEntry> decode_of_8b(Gpu& gpu);

}  // namespace longhaul::gpu_bench
