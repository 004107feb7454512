// What a block of gpu_bench measures with: memory of the GPU, and the time of operations beside its two ceilings. A
// block is a function that takes a Bench, in a file of its own, and stands in the table of gpu_bench.cc. One thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/core/tensor/compute_context.h"
#include "engine/ops/gpu.h"
#include "tests/gpu/bench/bench_entry.h"

namespace longhaul::gpu_bench {

// Of own kernels that memory bounds: least share of the copy's bandwidth.
inline constexpr double memory_bar = 0.85;

class Bench {
 public:
  explicit Bench(Gpu& gpu);

  Gpu& gpu() { return gpu_; }
  const ComputeContext& context() const { return context_; }
  Tensor tensor(DType dtype, std::int64_t size) { return Tensor(dtype, Shape{size}, &account_); }
  // Numbers that are no zeros, whose products do not grow.
  Tensor filled(DType dtype, std::int64_t size);

  // The median of batches of calls, each between two waits for the device; a batch lasts ten milliseconds or more, so
  // that starting and waiting do not count.
  double seconds_of(const std::function<void()>& operation);
  void measure(const std::string& name, double bytes, double flops, double bar, const std::function<void()>& f);
  // Of the machine: a copy of so many bytes, a product of n x n in bf16.
  void find_ceilings(std::int64_t bytes = std::int64_t{1} << 30, std::int64_t n = 8192);

  Ceilings ceilings;
  std::vector<BenchEntry> entries;

 private:
  Gpu& gpu_;
  MemoryAccount account_;
  ComputeContext context_;
};

// The table on the terminal, and as JSON where a path is given: 0, 1 where a bar was missed, 2 where it cannot be
// written.
int print_report(const Bench& bench, const std::string& device, const std::string& json);

}  // namespace longhaul::gpu_bench
