// A GPU on the processor: memory of the host, kernels run thread by thread (cuda_emulation.h), products by the
// processor's own GEMM. What the engine gives to a device's operations runs through the host code and the kernels that
// a GPU runs. Tests may touch its memory as they like.
#pragma once

#include <memory>

#include "engine/core/allocated_ranges.h"
#include "engine/core/compute_context.h"
#include "engine/core/device.h"
#include "engine/ops/cuda/cuda_ops.h"

namespace longhaul::testing {

class EmulatedDevice final : public Device {
 public:
  std::string name() const override { return "a GPU emulated on the processor"; }
  Result<std::byte*> allocate(std::int64_t bytes) override;
  void release(std::byte* memory) override;
  void copy_in(const void* host, void* device, std::int64_t bytes) override;
  void copy_out(const void* device, void* host, std::int64_t bytes) override;
  void copy(const void* from, void* to, std::int64_t bytes) override;
  void zero(void* device, std::int64_t bytes) override;
  void finish() override {}
  bool owns(const void* address) const override { return ranges_.contain(address); }
  Result<std::unique_ptr<DeviceQueue>> queue() override;
  Result<std::byte*> allocate_host(std::int64_t bytes) override;
  void release_host(std::byte* memory) override;
  Result<std::byte*> share(std::byte* memory, std::int64_t) override { return memory; }
  void unshare(std::byte*) override {}

 private:
  AllocatedRanges ranges_;
};

class HostGemm final : public cuda::DeviceGemm {
 public:
  void run(cudaStream_t, const GemmShape& shape, ConstView a, ConstView b, View c) override;

 private:
  ComputeContext context_;
};

// Device, products and operations, and a context that uses them.
class EmulatedGpu {
 public:
  EmulatedGpu() : ops_(device_, nullptr, gemm_), context_(ops_) {}
  const ComputeContext& context() const { return context_; }

 private:
  EmulatedDevice device_;
  HostGemm gemm_;
  cuda::CudaOps ops_;
  ComputeContext context_;
};

}  // namespace longhaul::testing
