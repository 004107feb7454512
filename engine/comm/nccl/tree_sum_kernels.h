// The sums of engine/comm/tree_sum.h on a device, along the same tree: the same bits.
#pragma once

#include <cstdint>

#include "engine/ops/cuda/stream.h"

namespace longhaul::cuda {

enum class TreeOperation { sum, max };

// out[i] = over r < rows, along the tree, of terms[r * n + i]; at least one row; out may be one of the rows.
void tree_rows(cudaStream_t stream, TreeOperation operation, Index rows, Index n, const float* terms, float* out);

// *word = value, seen by the host at once.
void write_word(cudaStream_t stream, std::uint64_t* word, std::uint64_t value);

}  // namespace longhaul::cuda
