// What reads and writes arrays element by element or row by row, sums over them, and the optimizer on a GPU.
#pragma once

#include "engine/ops/cuda/operations/cuda_work.h"
#include "engine/ops/device/pointwise_device_ops.h"

namespace longhaul::cuda {

class CudaPointwiseOps : public virtual PointwiseDeviceOps {
 public:
  // Borrowed: work.
  explicit CudaPointwiseOps(const CudaWork& work) : work_(work) {}

  void add(ConstView a, ConstView b, View out) const override;
  void add_to_rows(ConstView x, std::int64_t rows, View y) const override;
  void axpy(float alpha, ConstFloats x, Floats y) const override;
  void scale(float alpha, Floats x) const override;
  void fill(View x, float value) const override;
  void cast(ConstView x, View out) const override;
  double sum(ConstFloats x) const override;
  double sum_of_squares(ConstFloats x) const override;
  bool any_not_finite(ConstFloats x) const override;
  void sums_of_squares(std::span<const ConstFloats> parts, std::span<double> sums) const override;
  void digest_parts(ConstFloats x, std::span<std::uint64_t> out) const override;
  void swiglu_forward(SwiGluShape shape, ConstView gate, ConstView up, View out) const override;
  void swiglu_backward(SwiGluShape shape, ConstView dout, ConstView gate, ConstView up, View dgate,
                       View dup) const override;
  void gelu_forward(ConstView x, View y) const override;
  void gelu_backward(ConstView dy, ConstView x, View dx) const override;
  void dropout(const DropoutMask& mask, std::int64_t rows, std::int64_t columns, ConstView x, View out) const override;
  void dropout_change(const DropoutMask& mask, std::int64_t rows, std::int64_t columns, ConstView x,
                      View out) const override;
  void embedding_forward(EmbeddingShape shape, Ids ids, ConstView table, View out) const override;
  void embedding_backward(EmbeddingShape shape, Ids ids, ConstView dout, Floats dtable) const override;
  void adamw_update(const AdamWStep& step, Floats master, View m, View v, ConstFloats grad, View compute_copy,
                    const AdamWRounding* rounding) const override;
  void copy_rows(const RowBlockShape& shape, ConstView from, View to) const override;
  void add_rows(const RowBlockShape& shape, ConstView from, Floats to) const override;
  void dots_of_lines(MatrixLine line, ConstView a, ConstView b, bool accumulate, Floats out) const override;
  void scale_lines(MatrixLine line, ConstFloats factors, View matrix) const override;
  void divide_by_roots(ConstFloats x, ConstFloats squares, bool accumulate, Floats out) const override;

 private:
  double flat_sum(int kind, ConstFloats x) const;
  // x times (mask / (1 - rate) - less).
  void multiply_by_mask(const DropoutMask& mask, float less, std::int64_t rows, std::int64_t columns, ConstView x,
                        View out) const;

  const CudaWork& work_;
};

}  // namespace longhaul::cuda
