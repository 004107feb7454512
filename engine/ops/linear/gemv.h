// y = x W^T for a few rows of x, as in token-by-token generation: reads every weight once, so the speed is that of
// memory.
#pragma once

#include <span>

#include "engine/ops/linear/gemm.h"

namespace longhaul {

inline constexpr std::int64_t kGemvTokensMax = 8;
// Weights of eight and four bits, on the processor: up to here each y is the sum that it is for one token, of x and
// weights in f32; more tokens take products in x's type of weights unpacked block by block.
inline constexpr std::int64_t kPanelTokensMax = 32;

// x[tokens, in] f32 or bf16; weight[out, in] f32 or bf16; y[tokens, out] f32 or bf16. tokens <= kGemvTokensMax.
// Every y is the same sum in the same order whatever `tokens` and the thread count are.
void gemv(const ComputeContext& context, LinearShape shape, ConstView x, ConstView weight, View y);

// int8 weights, symmetric per output channel: W[o, i] = scales[o] * q[o, i]; q[out, in] i8, scales[out] f32.
// Any number of tokens: few (kPanelTokensMax) unpack each weight once for all of them, more take a GEMM over weights
// unpacked block by block to x's type.
void linear_forward_int8(const ComputeContext& context, LinearShape shape, ConstView x, ConstView q,
                         std::span<const float> scales, View y);

}  // namespace longhaul
