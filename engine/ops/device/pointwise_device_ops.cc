#include "engine/ops/device/pointwise_device_ops.h"

namespace longhaul {

void PointwiseDeviceOps::add(ConstView, ConstView, View) const {
  missing("add");
}
void PointwiseDeviceOps::add_to_rows(ConstView, std::int64_t, View) const {
  missing("add_to_rows");
}
void PointwiseDeviceOps::axpy(float, ConstFloats, Floats) const {
  missing("axpy");
}
void PointwiseDeviceOps::scale(float, Floats) const {
  missing("scale");
}
void PointwiseDeviceOps::fill(View, float) const {
  missing("fill");
}
void PointwiseDeviceOps::cast(ConstView, View) const {
  missing("cast");
}
double PointwiseDeviceOps::sum(ConstFloats) const {
  missing("sum");
}
double PointwiseDeviceOps::sum_of_squares(ConstFloats) const {
  missing("sum_of_squares");
}
bool PointwiseDeviceOps::any_not_finite(ConstFloats) const {
  missing("any_not_finite");
}
void PointwiseDeviceOps::sums_of_squares(std::span<const ConstFloats>, std::span<double>) const {
  missing("sums_of_squares");
}
void PointwiseDeviceOps::digest_parts(ConstFloats, std::span<std::uint64_t>) const {
  missing("digest_parts");
}
void PointwiseDeviceOps::swiglu_forward(SwiGluShape, ConstView, ConstView, View) const {
  missing("swiglu_forward");
}
void PointwiseDeviceOps::swiglu_backward(SwiGluShape, ConstView, ConstView, ConstView, View, View) const {
  missing("swiglu_backward");
}
void PointwiseDeviceOps::gelu_forward(ConstView, View) const {
  missing("gelu_forward");
}
void PointwiseDeviceOps::gelu_backward(ConstView, ConstView, View) const {
  missing("gelu_backward");
}
void PointwiseDeviceOps::dropout(const DropoutMask&, std::int64_t, std::int64_t, ConstView, View) const {
  missing("dropout");
}
void PointwiseDeviceOps::dropout_change(const DropoutMask&, std::int64_t, std::int64_t, ConstView, View) const {
  missing("dropout_change");
}
void PointwiseDeviceOps::embedding_forward(EmbeddingShape, Ids, ConstView, View) const {
  missing("embedding_forward");
}
void PointwiseDeviceOps::embedding_backward(EmbeddingShape, Ids, ConstView, Floats) const {
  missing("embedding_backward");
}
void PointwiseDeviceOps::adamw_update(const AdamWStep&, Floats, View, View, ConstFloats, View,
                                      const AdamWRounding*) const {
  missing("adamw_update");
}
void PointwiseDeviceOps::copy_rows(const RowBlockShape&, ConstView, View) const {
  missing("copy_rows");
}
void PointwiseDeviceOps::add_rows(const RowBlockShape&, ConstView, Floats) const {
  missing("add_rows");
}
void PointwiseDeviceOps::dots_of_lines(MatrixLine, ConstView, ConstView, bool, Floats) const {
  missing("dots_of_lines");
}
void PointwiseDeviceOps::scale_lines(MatrixLine, ConstFloats, View) const {
  missing("scale_lines");
}
void PointwiseDeviceOps::divide_by_roots(ConstFloats, ConstFloats, bool, Floats) const {
  missing("divide_by_roots");
}

}  // namespace longhaul
