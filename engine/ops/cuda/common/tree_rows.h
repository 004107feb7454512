// What communicators ask a device for (NcclKernels of engine/comm/nccl/nccl_communicator.h): the sums of
// engine/comm/tree_sum.h along the same tree, with the same bits, and a word for the heartbeat page.
#pragma once

#include <cstdint>

#include "engine/ops/cuda/common/stream.h"

namespace longhaul::cuda {

// out[i] = sum, or the largest, over r < rows, along the tree, of terms[r * n + i]; at least one row; out may be one of
// the rows.
void tree_rows(cudaStream_t stream, bool largest, Index rows, Index n, const float* terms, float* out);

// *word = value, seen by the host at once.
void write_word(cudaStream_t stream, std::uint64_t* word, std::uint64_t value);

}  // namespace longhaul::cuda
