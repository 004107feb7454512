// Block of gpu_bench: token-by-token generation of an 8B model (Llama 3: 32 heads of 128 elements, 8 of keys).
#pragma once

#include "tests/gpu/bench/bench.h"

namespace longhaul::gpu_bench {

void decode(Bench& bench);

}  // namespace longhaul::gpu_bench
