// Room engine/ops/pointwise
// The contracts of operations on elements and rows: sums, norms, activations, embedding, dropout, AdamW.
// Each header is one operation with its formula and its source, and has one source in cpu/pointwise.
// It may not include an implementation; adamw.h uses stochastic rounding from engine/ops/linear.
//
// Sums, scalings and casts over flat arrays, and norms that do not depend on the number of threads.
#pragma once

#include <span>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

// out = a + b, one type (f32 or bf16), sums in f32. out may be a or b.
void add(const ComputeContext& context, ConstView a, ConstView b, View out);

// y[row] += x for every row of y [rows, columns]; one type (f32 or bf16).
void add_to_rows(const ComputeContext& context, ConstView x, std::int64_t rows, View y);

// y += alpha x, f32.
void axpy(const ComputeContext& context, float alpha, std::span<const float> x, std::span<float> y);

// terms[0] = the sum of all terms, f32, along the tree of engine/comm/tree_sum.h, with the same bits; the other terms
// are left as sums of branches.
void add_along_tree(const ComputeContext& context, std::span<const std::span<float>> terms);

// x *= alpha, f32 (clipping, averaging).
void scale(const ComputeContext& context, float alpha, std::span<float> x);

void fill(const ComputeContext& context, View x, float value);  // f32 or bf16

// out = x in out's type; f32 <-> bf16 (round to nearest even) or a plain copy.
void cast(const ComputeContext& context, ConstView x, View out);

// Sum of squares in f64, over fixed blocks added in order: the same bits for every thread count.
double sum_of_squares(const ComputeContext& context, std::span<const float> x);

// Of each of several parts, with the bits of sum_of_squares of it alone: on a device one wait for all of them.
void sums_of_squares(const ComputeContext& context, std::span<const std::span<const float>> parts,
                     std::span<double> sums);

// Sum in f64, same promise.
double sum(const ComputeContext& context, std::span<const float> x);

// Is any element NaN or infinite?
bool any_not_finite(const ComputeContext& context, std::span<const float> x);

// min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_; max_norm <= 0: 1 (no clipping).
float clip_scale(double norm, double max_norm);

}  // namespace longhaul
