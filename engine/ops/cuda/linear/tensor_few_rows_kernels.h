// Products of up to eight rows of bf16 by the tensor cores: few_rows_product() of decode_kernels.h asks here first.
#pragma once

#include "engine/ops/cuda/linear/decode_kernels.h"
#include "engine/ops/cuda/linear/weight_only_kernels.h"

namespace longhaul::cuda {

// False, and nothing is done, where rows do not begin at multiples of 16 bytes. Each row of y depends on its row of x
// alone, and on no number of rows.
template <class W, class Y>
bool few_rows_by_tensor_cores(cudaStream_t stream, const FewRows<bf16, W, Y>& arguments);
// The same for codes of four bits: few_rows_int4() of weight_only_kernels.h; in groups of multiples of 128.
template <class Y>
bool few_rows_int4_by_tensor_cores(cudaStream_t stream, const FewRowsInt4<bf16, Y>& arguments);

}  // namespace longhaul::cuda
