// What an operation may use: how many threads, scratch memory, and compiled GEMM primitives. One per rank, passed to
// every operation; used by one thread at a time. Ranks that are threads of one process each have their own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/core/tensor/tensor.h"
#include "engine/core/tensor/trace.h"

namespace longhaul {

struct GemmCache;  // engine/ops/cpu/gemm_onednn.cc
class DeviceOps;   // engine/ops/device_ops.h
class Device;      // engine/core/device/device.h

// Which of the compiled instruction sets the operations use. `best` asks the processor; the others are for tests and
// for runs that must give the same bits on unlike nodes. Asking for more than the processor has gives the best it has.
enum class CpuLevel { portable, avx2, avx512, avx512_bf16, amx, best };

class ComputeContext {
 public:
  explicit ComputeContext(int threads = 1, CpuLevel level = CpuLevel::best);
  // Operations run on a device; what they are given lies in its memory. Borrowed.
  ComputeContext(Device& device, const DeviceOps& ops, int threads = 1);
  ~ComputeContext();
  ComputeContext(const ComputeContext&) = delete;
  ComputeContext& operator=(const ComputeContext&) = delete;

  const DeviceOps* device_ops() const { return device_ops_; }  // null: operations run on the processor
  Device* device() const { return device_; }                   // whose memory that is
  int threads() const { return threads_; }
  CpuLevel cpu_level() const { return level_; }

  // Scratch of at least `bytes`, aligned to 64, where operations work: in the device's memory, or in the host's. Valid
  // until the next call of scratch() with the same slot. Grows, never shrinks. The processor's operations use slots
  // 0-3; scratch memory is not zeroed.
  std::byte* scratch(int slot, std::int64_t bytes) const;
  std::int64_t scratch_bytes() const;
  std::int64_t scratch_bytes(int slot) const { return scratch_[slot].bytes(); }  // of this context alone

  // One context of a single thread (and the same level) for each thread of this one, for operations that run side by
  // side inside a parallel loop. make_lanes() before the loop (it does its work once); lane(parallel_thread_index())
  // inside.
  void make_lanes() const;
  const ComputeContext& lane(int thread) const;

  // Called now and then by the thread that computes, between two large operations: what is under way between ranks
  // goes on then, as MPI works only while it is called. Empty: nobody.
  void set_between(std::function<void()> between) const { between_ = std::move(between); }
  void between() const {
    if (between_) between_();
  }
  // Where spans of computation are noted; null: nowhere. Borrowed.
  void set_trace(Trace* trace) const { trace_ = trace; }
  Trace* trace() const { return trace_; }

  // Owned here, made and understood by the GEMM only.
  std::shared_ptr<GemmCache>& gemm_cache() const { return gemm_cache_; }

 private:
  int threads_;
  CpuLevel level_;
  const DeviceOps* device_ops_ = nullptr;
  Device* device_ = nullptr;
  mutable std::function<void()> between_;
  mutable Trace* trace_ = nullptr;
  mutable MemoryAccount scratch_place_;
  mutable Buffer scratch_[4];
  mutable std::shared_ptr<GemmCache> gemm_cache_;
  mutable std::vector<std::unique_ptr<ComputeContext>> lanes_;  // empty with one thread: this context is its own lane
};

}  // namespace longhaul
