#include "engine/parallel/mesh/part_copy.h"

#include <algorithm>
#include <string>

#include "base/error/result.h"
#include "engine/ops/pointwise/row_blocks.h"

namespace longhaul {

MatrixPart::MatrixPart(const Box& box) : column(box.offset.back()), columns(box.extent.back()) {
  LH_ASSERT(box.offset.size() <= 2, std::to_string(box.offset.size()));
  if (box.offset.size() == 2) row = box.offset[0], rows = box.extent[0];
}

void copy_part(const ComputeContext& context, ConstView piece, const Box& from, const Box& to, View out) {
  const MatrixPart source(from), target(to);
  const std::int64_t row = std::max(source.row, target.row), column = std::max(source.column, target.column);
  const std::int64_t rows = std::min(source.row + source.rows, target.row + target.rows) - row;
  const std::int64_t columns = std::min(source.column + source.columns, target.column + target.columns) - column;
  if (rows <= 0 || columns <= 0) return;
  copy_rows(context, {rows, columns, source.columns, target.columns}, elements_from(piece, source.place(row, column)),
            elements_from(out, target.place(row, column)));
}

}  // namespace longhaul
