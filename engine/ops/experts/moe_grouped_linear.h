// The linear layers of many experts at once: rows sorted by expert times one weight matrix per expert (as in
// MegaBlocks, arXiv 2211.15841). For every expert e with rows [offsets[e], offsets[e + 1]):
//   y = x W[e]^T;  backward: dx = dy W[e];  dW[e] += dy^T x
// Rows are worked on in pieces, each by one thread with a GEMM of its own, so that small experts run side by side.
// Pieces have few different sizes (the last one of an expert is filled up with zeros): the numbers of rows change with
// every micro-batch, and a GEMM primitive is compiled per size. The pieces do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

struct GroupedLinearShape {
  std::int64_t experts = 0, in = 0, out = 0;
};

// offsets [experts + 1], non-decreasing from 0, lie where the operands do: a device finds its tiles from them itself,
// and takes x (or dy) to have all rows that there may be. Rows behind the last offset are left as they are.
// x [rows, in], weights [experts, out, in], y [rows, out] of one type
// (f32 or bf16), or x and W bf16 with y f32.
void grouped_linear_forward(const ComputeContext& context, GroupedLinearShape shape,
                            std::span<const std::int64_t> offsets, ConstView x, ConstView weights, View y);

// dx [rows, in] is written.
void grouped_linear_backward_input(const ComputeContext& context, GroupedLinearShape shape,
                                   std::span<const std::int64_t> offsets, ConstView dy, ConstView weights, View dx);

// dweights [experts, out, in] f32 accumulates, or is written with accumulate = false; an expert without rows adds (or
// gets) 0.
void grouped_linear_backward_weight(const ComputeContext& context, GroupedLinearShape shape,
                                    std::span<const std::int64_t> offsets, ConstView dy, ConstView x, View dweights,
                                    bool accumulate = true);

}  // namespace longhaul
