// Attention of bf16 by the tensor cores, for heads of 64 and 128 elements: formulas, masks and arguments as in
// attention_kernels.h, sums in f32, weights and their gradients rounded to bf16 before they are multiplied (Dao 2023,
// "FlashAttention-2"). Deterministic: a block of queries adds up its dq and a block of keys its dk and dv, each in a
// fixed order, for which the scores are computed twice.
#pragma once

#include "engine/ops/cuda/attention/attention_kernels.h"

namespace longhaul::cuda {

// Whether these kernels know the case: the head's size, and rows that begin at multiples of 16 bytes.
bool tensor_attention_knows(const AttentionForward<bf16>& arguments);
bool tensor_attention_knows(const AttentionBackward<bf16>& arguments);
void tensor_attention_forward(cudaStream_t stream, const AttentionForward<bf16>& arguments);
void tensor_attention_backward(cudaStream_t stream, const AttentionBackward<bf16>& arguments);

}  // namespace longhaul::cuda
