// A GPU on the processor: kernels run thread by thread (cuda_emulation.h), products by the processor's own GEMM. What
// the engine gives to a device's operations runs through the host code and the kernels that a GPU runs. The memory of
// an EmulatedGpu can be touched by kernels and copies alone: anything else that reads or writes there ends the program
// (a segmentation fault), as it would beside a GPU. A thread may have several devices; kernels of a device run in the
// thread that made it. Operations may be given memory of the host as well, for tests of
// single operations.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/device/allocated_ranges.h"
#include "engine/core/device/device.h"
#include "engine/core/device/device_arena.h"
#include "engine/core/tensor/compute_context.h"
#include "engine/ops/cuda/cuda_ops.h"
#include "engine/ops/gpu.h"
#include "tests/support/emulated_gpu/emulated_stream.h"

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
  // Of its operations: kernels go there.
  CUstream_st* stream() const;
  // Products and copies come here too. True: kept, as this is being recorded.
  bool keep(const std::function<void()>& work);
  // How often the host has waited for something that it was given from here.
  std::int64_t waits() const { return waits_; }
  // As CudaDevice::driver_allocations(): what would have waited for a GPU.
  std::int64_t driver_allocations() const { return driver_allocations_; }
  // How much was copied from here to the host, by its queues as well.
  std::int64_t bytes_to_host() const { return bytes_to_host_; }

  std::string name() const override { return "a GPU emulated on the processor"; }
  std::int64_t free_bytes() const override { return bytes_ - taken_; }
  Result<std::byte*> allocate(std::int64_t bytes) override;
  void release(std::byte* memory) override;
  void copy_in(const void* host, void* device, std::int64_t bytes) override;
  void copy_out(const void* device, void* host, std::int64_t bytes) override;
  void copy(const void* from, void* to, std::int64_t bytes) override;
  void zero(void* device, std::int64_t bytes) override;
  void finish() override { not_while_recording("finish"); }
  std::unique_ptr<DeviceRecording> record(const std::string& what, const std::function<void()>& ask) override;
  std::int64_t releases() const override { return releases_; }
  bool owns(const void* address) const override { return ranges_.contain(address); }
  Result<std::unique_ptr<DeviceQueue>> queue() override;
  Result<std::byte*> allocate_host(std::int64_t bytes) override;
  void release_host(std::byte* memory) override;
  Result<std::byte*> share(std::byte* memory, std::int64_t) override { return memory; }
  void unshare(std::byte*) override {}

 private:
  class Operations;
  void not_while_recording(const char* call) const;
  std::byte* take_segment(std::int64_t bytes);
  void give_back(std::byte* segment);

  bool guarded_;
  std::byte* memory_;
  std::int64_t waits_ = 0, bytes_to_host_ = 0, driver_allocations_ = 0;
  std::int64_t bytes_, used_ = 0, taken_ = 0;  // used: address space so far; taken: by allocations alive
  int open_ = 0;
  std::unique_ptr<EmulatedStream> stream_;
  std::string recording_;  // what is being recorded; empty: nothing
  std::vector<std::function<void()>> kept_;
  std::int64_t releases_ = 0;
  std::map<std::byte*, std::int64_t> segments_;   // that the arena has, with their sizes
  std::multimap<std::int64_t, std::byte*> free_;  // that it gave back, by size
  AllocatedRanges ranges_;
  DeviceArena arena_;  // behind those that it gives back to
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
  // bytes: of its memory. Guarded or not: as EmulatedDevice has it.
  explicit EmulatedGpu(std::int64_t bytes = std::int64_t{4} << 30, bool guarded = true)
      : device_(guarded, bytes), gemm_(device_), ops_(device_, device_.stream(), gemm_), context_(device_, ops_) {}
  EmulatedDevice& device() override { return device_; }
  const DeviceOps& ops() const override { return ops_; }
  Status use_attention(const AttentionSettings& settings, AttentionObserver observer) override {
    return ops_.ways().use(settings, std::move(observer));
  }
  // For tests with a library that stands in for cuDNN.
  void set_attention_library(cuda::AttentionWays::OpenAttention open) { ops_.ways().set_library(std::move(open)); }
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
