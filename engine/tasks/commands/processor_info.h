// What of the processor the operations use, in plain words: lines of `longhaul-engine info`, which `longhaul doctor`
// shows.
#pragma once

#include <string>

#include "engine/core/tensor/compute_context.h"

namespace longhaul {

struct ProcessorFacts {
  CpuLevel level = CpuLevel::portable;  // of the kernels
  bool x86 = true;                      // else Arm, whose only level is the portable one
  bool bf16_products_native = false;
  CpuLevel processor = CpuLevel::portable;  // the highest that the processor has
  double portable_gflops = 0;               // of one core, f32 products, measured; of a portable level on x86 only
};
// Asks the processor; where it is x86 without AVX2, also measures one small product (some 50 ms).
ProcessorFacts processor_facts();
// Lines `name: text`, without a newline at the end.
std::string processor_text(const ProcessorFacts& facts);

}  // namespace longhaul
