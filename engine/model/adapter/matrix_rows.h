// What adapters that scale rows or columns of a matrix need of it. Matrices are [rows, columns] in f32 on the host;
// sums are in f64. Threads share rows, which changes no bit.
#pragma once

#include <span>
#include <vector>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

// For each row i: the sum over j of a[i, j] b[i, j].
std::vector<float> dots_of_rows(const ComputeContext& context, ConstView a, ConstView b);
// For each column j: the sum over i of a[i, j] b[i, j].
std::vector<float> dots_of_columns(const ComputeContext& context, ConstView a, ConstView b);
// matrix[i, j] *= factors[i]
void scale_rows(const ComputeContext& context, View matrix, std::span<const float> factors);
// matrix[i, j] *= factors[j]
void scale_columns(const ComputeContext& context, View matrix, std::span<const float> factors);

}  // namespace longhaul
