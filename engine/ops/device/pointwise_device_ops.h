// What reads and writes arrays element by element or row by row, sums over them, and the optimizer.
#pragma once

#include "engine/ops/device/device_op_group.h"
#include "engine/ops/pointwise/adamw.h"
#include "engine/ops/pointwise/dropout.h"
#include "engine/ops/pointwise/embedding.h"
#include "engine/ops/pointwise/matrix_lines.h"
#include "engine/ops/pointwise/row_blocks.h"
#include "engine/ops/pointwise/swiglu.h"

namespace longhaul {

class PointwiseDeviceOps : public DeviceOpGroup {
 public:
  virtual void add(ConstView a, ConstView b, View out) const;
  virtual void add_to_rows(ConstView x, std::int64_t rows, View y) const;
  virtual void axpy(float alpha, ConstFloats x, Floats y) const;
  virtual void scale(float alpha, Floats x) const;
  virtual void fill(View x, float value) const;
  virtual void cast(ConstView x, View out) const;
  virtual double sum(ConstFloats x) const;
  virtual double sum_of_squares(ConstFloats x) const;
  virtual bool any_not_finite(ConstFloats x) const;
  virtual void sums_of_squares(std::span<const ConstFloats> parts, std::span<double> sums) const;
  virtual void digest_parts(ConstFloats x, std::span<std::uint64_t> out) const;
  virtual void swiglu_forward(SwiGluShape shape, ConstView gate, ConstView up, View out) const;
  virtual void swiglu_backward(SwiGluShape shape, ConstView dout, ConstView gate, ConstView up, View dgate,
                               View dup) const;
  virtual void gelu_forward(ConstView x, View y) const;
  virtual void gelu_backward(ConstView dy, ConstView x, View dx) const;
  virtual void dropout(const DropoutMask& mask, std::int64_t rows, std::int64_t columns, ConstView x, View out) const;
  virtual void dropout_change(const DropoutMask& mask, std::int64_t rows, std::int64_t columns, ConstView x,
                              View out) const;
  virtual void embedding_forward(EmbeddingShape shape, Ids ids, ConstView table, View out) const;
  virtual void embedding_backward(EmbeddingShape shape, Ids ids, ConstView dout, Floats dtable) const;
  virtual void adamw_update(const AdamWStep& step, Floats master, View m, View v, ConstFloats grad, View compute_copy,
                            const AdamWRounding* rounding) const;
  // Of ranks that share a model: row_blocks.h, cross_entropy_shard.h. The gradient takes the place of the logits, in
  // their type.
  virtual void copy_rows(const RowBlockShape& shape, ConstView from, View to) const;
  virtual void add_rows(const RowBlockShape& shape, ConstView from, Floats to) const;
  virtual void dots_of_lines(MatrixLine line, ConstView a, ConstView b, bool accumulate, Floats out) const;
  virtual void scale_lines(MatrixLine line, ConstFloats factors, View matrix) const;
  virtual void divide_by_roots(ConstFloats x, ConstFloats squares, bool accumulate, Floats out) const;
};

}  // namespace longhaul
