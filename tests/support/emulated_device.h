// A GPU on the processor: kernels run thread by thread (cuda_emulation.h), products by the processor's own GEMM. What
// the engine gives to a device's operations runs through the host code and the kernels that a GPU runs. The memory of
// an EmulatedGpu can be touched by kernels and copies alone: anything else that reads or writes there ends the program
// (a segmentation fault), as it would beside a GPU. A thread may have several devices; kernels of a device run in the
// thread that made it. Operations may be given memory of the host as well, for tests of
// single operations.
#pragma once

#include <map>
#include <memory>

#include "engine/core/allocated_ranges.h"
#include "engine/core/compute_context.h"
#include "engine/core/device.h"
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/gpu.h"

namespace longhaul::testing {

// Of one thread at a time, beside its queues.
class EmulatedDevice final : public Device {
 public:
  // Guarded: the memory can be touched while open() alone, so that what its queues are asked for is done at once, and
  // not by threads of their own, which would touch it at any time. bytes: of address space; touched pages cost memory.
  explicit EmulatedDevice(bool guarded = false, std::int64_t bytes = std::int64_t{4} << 30);
  ~EmulatedDevice() override;
  EmulatedDevice(const EmulatedDevice&) = delete;
  EmulatedDevice& operator=(const EmulatedDevice&) = delete;
  // While kernels, products and copies run. They may be inside each other.
  void open();
  void close();
  std::int64_t bytes_taken() const { return taken_; }

  std::string name() const override { return "a GPU emulated on the processor"; }
  std::int64_t free_bytes() const override { return bytes_ - taken_; }
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
  bool guarded_;
  std::byte* memory_;
  std::int64_t bytes_, used_ = 0, taken_ = 0;  // used: address space so far; taken: by allocations alive
  int open_ = 0;
  std::map<std::byte*, std::int64_t> alive_;
  std::multimap<std::int64_t, std::byte*> free_;  // by size
  AllocatedRanges ranges_;
};

class HostGemm final : public cuda::DeviceGemm {
 public:
  explicit HostGemm(EmulatedDevice& device) : device_(device) {}
  void run(cudaStream_t, const GemmShape& shape, ConstView a, ConstView b, View c) override;

 private:
  EmulatedDevice& device_;
  ComputeContext context_;
};

// Device, products and operations, and a context that uses them.
class EmulatedGpu final : public Gpu {
 public:
  // Guarded or not: as EmulatedDevice has it.
  explicit EmulatedGpu(bool guarded = true)
      : device_(guarded), gemm_(device_), ops_(device_, nullptr, gemm_), context_(device_, ops_) {}
  EmulatedDevice& device() override { return device_; }
  const DeviceOps& ops() const override { return ops_; }
  const ComputeContext& context() const { return context_; }
  // Of kernels alone, not of products; one at a time.
  Result<std::unique_ptr<KernelTimer>> time_kernels() override;

 private:
  EmulatedDevice device_;
  HostGemm gemm_;
  cuda::CudaOps ops_;
  ComputeContext context_;
};

}  // namespace longhaul::testing
