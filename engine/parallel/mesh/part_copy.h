// Parts of matrices and vectors from one array to another where operations work, so on a device, too. (box_copy.h is
// for tensors of any rank on the host.)
#pragma once

#include <cstdint>

#include "contracts/model/parameter_list.h"
#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

// A box of at most two dimensions as a matrix, of a vector as its one row.
struct MatrixPart {
  std::int64_t row = 0, rows = 1, column = 0, columns = 0;

  explicit MatrixPart(const Box& box);
  // In an array that holds this part, of an element of the whole tensor.
  std::int64_t place(std::int64_t of_row, std::int64_t of_column) const {
    return (of_row - row) * columns + of_column - column;
  }
};

// `piece` holds the elements of `from`, `out` those of `to`: what is in both is copied. Both are of one type.
void copy_part(const ComputeContext& context, ConstView piece, const Box& from, const Box& to, View out);

}  // namespace longhaul
