// Whole training steps on this machine's GPU: Llama-2-7B in bf16 and fp8, GPT-2 124M and 1.5B, and what a checkpoint
// costs them. Ends with 77 and the reason where there is no GPU, with 1 when a bar is missed; what was found by then
// is in the table and in the file of --json (tests/gpu/training/training_bench.h).
#include "tests/gpu/real_gpu.h"
#include "tests/gpu/training/training_bench.h"

int main(int argc, char** argv) {
  const std::shared_ptr<longhaul::Gpu> gpu = longhaul::testing::open_real_gpu();
  if (!gpu) return longhaul::testing::kNoGpu;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return longhaul::gpu_bench::training_bench(*gpu, arguments);
}
