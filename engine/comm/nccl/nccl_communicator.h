// Room engine/comm/nccl
// Communicators over NCCL, for ranks with a GPU each, without MPI in the process.
// nccl_group.h is one communicator of NCCL from its id to its end, nccl_operation.h one operation on it.
// nccl_library.h opens the library while the program runs; the pure rule for lanes is engine/comm/nccl_lanes.h.
// Only main includes it, so that everything above works with engine/comm/device_ranks.h and any backend.
//
// Communicators over NCCL, for ranks with a GPU each and no MPI in the process. Nothing blocks: NCCL is used in the way
// that returns at once, and whatever goes on is looked at when an operation is polled.
//
// Each communicator is one of NCCL with a queue of the device of its own, beside the operations: an operation begins
// when the device has done what it was asked for before it was started, and is done when the device has done it. It is
// made when the first operation needs it; rank 0 of the group leaves NCCL's id at the rendezvous. Exchanges have one
// more for each tag, and a pair of ranks that sends messages one for each direction and tag, as NCCL would make a
// receive wait for an earlier one of another tag, and sends wait for receives (nccl_lanes.h). Whichever operation is
// polled, all that the rank has started go on.
//
// Sums go along the tree of tree_sum.h: rows travel as they are and are added by a kernel, so that the bits are those
// of the other backends. NCCL's own sums move half as much of a small one, in an order of NCCL's choice. Checksums of
// contributions are taken by kernels in the queue; they alone come to the host, and are there when the sum is done.
//
// Spans of the host are copied through pinned memory. A communicator whose wait failed is aborted, and the wait comes
// back when NCCL has let go of the buffers; where it does not in time, the process is lost (world() says so) and the
// device may still write to them.
#pragma once

#include <memory>
#include <string>

#include "engine/comm/device_ranks.h"
#include "engine/core/device/device.h"

namespace longhaul {

enum class NcclSums { tree, fastest };  // the same bits on every backend and layout; as NCCL likes

// Kernels that the communicators ask for, of tree_rows.h and digest_kernels.h in engine/ops/cuda.
struct NcclKernels {
  // out[i] = sum, or the largest, over r < rows, along the tree of tree_sum.h, of terms[r * n + i].
  void (*tree_rows)(CUstream_st* stream, bool largest, std::int64_t rows, std::int64_t n, const float* terms,
                    float* out) = nullptr;
  // *word = value, seen by the host at once.
  void (*write_word)(CUstream_st* stream, std::uint64_t* word, std::uint64_t value) = nullptr;
  // out[p] = the digest of part p of x (engine/ops/loss/digest.h); at `partial` there is room for digest_partials()
  // elements.
  void (*digest_parts)(CUstream_st* stream, std::int64_t n, const float* x, std::int64_t parts, std::uint64_t* partial,
                       std::uint64_t* out) = nullptr;
  std::int64_t (*digest_partials)(std::int64_t n, std::int64_t parts) = nullptr;
};

struct NcclOptions {
  std::string library;  // its file; empty: libnccl.so.2, as the loader finds it
  NcclSums sums = NcclSums::tree;
  std::int64_t leave_ms = 10'000;   // that aborting a communicator may take
  std::int64_t close_ms = 10'000;   // that the ranks may take to part at the end
  MemoryAccount* memory = nullptr;  // of staging memory, on the device and on its host; borrowed
  int multiprocessors = 108;        // of the device: which part of them communicators may hold (nccl_lanes.h)
};

struct NcclState;

class NcclRuntime final : public DeviceRanks {
 public:
  // The device and the rendezvous are borrowed. Errors: NCCL is not there, or not one that this program can use.
  static Result<std::unique_ptr<NcclRuntime>> start(Device& device, const NcclKernels& kernels, Rendezvous& rendezvous,
                                                    int rank, int size, const NcclOptions& options);
  // Waits until the ranks have parted, for close_ms at most.
  ~NcclRuntime() override;
  int rank() const;
  int size() const;
  std::string version() const override;
  Result<std::unique_ptr<Communicator>> world(std::uint64_t epoch, const CommOptions& options) override;
  const std::string& counted_by_host() const override;

 private:
  explicit NcclRuntime(std::shared_ptr<NcclState> state) : state_(std::move(state)) {}
  std::shared_ptr<NcclState> state_;
};

}  // namespace longhaul
