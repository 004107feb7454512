// Sums over rows in a fixed order: each of a few blocks adds up its rows in its own place of scratch, and
// then the places are added up.
#pragma once

#include "engine/ops/cuda/common/stream.h"

namespace longhaul::cuda {

inline constexpr Index row_part_blocks = 264;  // two for each multiprocessor of an H100 or H200

// to[column] += sum over i < count of parts[i * stride + column].
void add_parts(cudaStream_t stream, Index count, Index columns, Index stride, const float* parts, float* to,
               bool accumulate = true);

// to[column] = or += sum over rows of x [rows, columns]. parts: [column_sum_blocks(rows), columns] f32 of scratch.
Index column_sum_blocks(Index rows);
template <class T>
void column_sums(cudaStream_t stream, Index rows, Index columns, const T* x, float* parts, float* to, bool accumulate);

}  // namespace longhaul::cuda
