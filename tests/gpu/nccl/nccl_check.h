// The contract of Communicator (tests/parallel/comm/comm_contract.h) on ranks with a device each, over NCCL, or copied
// through the host where NCCL will not have two ranks on one GPU. Which device and which NCCL is the caller's: tests
// have an emulated one and a library that stands in.
#pragma once

#include "engine/comm/nccl/nccl_communicator.h"

namespace longhaul::gpu_bench {

// Exit code: NCCL is not there or would not make a communicator; what it answered was printed, nothing was checked.
inline constexpr int kNcclRefused = 3;

// One rank of `size`; all of them call it. first_ms: that NCCL may take for its first communicator and sum. 0: every
// check holds; 1: not, each failure a line; kNcclRefused.
int check_over_nccl(Device& device, const NcclKernels& kernels, const NcclOptions& options, Rendezvous& rendezvous,
                    int rank, int size, std::int64_t first_ms = 30'000);

// `size` ranks as threads of this process; each opens its own device. 0: every check holds; 1: not, or no device.
int check_staged(int size, const std::function<Result<std::unique_ptr<Device>>()>& open);

}  // namespace longhaul::gpu_bench
