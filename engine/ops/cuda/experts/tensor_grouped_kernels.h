// The products of grouped_linear_kernels.h through the tensor cores: bf16, widths that are multiples of 8, operands at
// multiples of 16 bytes.
#pragma once

#include "engine/ops/cuda/experts/grouped_linear_kernels.h"

namespace longhaul::cuda {

template <class Out>
bool tensor_grouped_knows(const GroupedProduct<bf16, Out>& p);
bool tensor_grouped_knows(const GroupedWeightGradient<bf16>& p);
template <class Out>
void tensor_grouped_product(cudaStream_t stream, bool transposed, const GroupedProduct<bf16, Out>& p);
void tensor_grouped_weight_gradient(cudaStream_t stream, const GroupedWeightGradient<bf16>& p);

}  // namespace longhaul::cuda
