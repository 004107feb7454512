// A number for each row, or for each column, of a matrix: sums of products along it, and its elements times a factor;
// what adapters that scale weights take (contracts/model/adapter_shape.h: dora, ia3). Matrices are [rows, columns] in
// f32, one row after the other; numbers of their rows are [rows], of their columns [columns].
#pragma once

#include <span>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

enum class MatrixLine { row, column };

// out[l] = or += the sum of a b over line l of two matrices of one shape: of rows the diagonal of A B^T, of columns of
// A^T B; where a is b, the squares of the lines' norms. In f64 in a fixed order, rounded once.
void dots_of_lines(const ComputeContext& context, MatrixLine line, ConstView a, ConstView b, bool accumulate,
                   std::span<float> out);
// matrix *= the factor of each element's line.
void scale_lines(const ComputeContext& context, MatrixLine line, std::span<const float> factors, View matrix);
// out[i] = or += x[i] / sqrt(squares[i]). out may be x.
void divide_by_roots(const ComputeContext& context, std::span<const float> x, std::span<const float> squares,
                     bool accumulate, std::span<float> out);

}  // namespace longhaul
