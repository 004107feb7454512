#include "engine/ops/linear/gemm.h"

#include <algorithm>
#include <vector>

#include "base/text/text.h"
#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/gemm/gemm_case.h"
#include "engine/ops/cpu/gemm/gemm_onednn.h"
#include "engine/ops/cpu/gemm/packed_gemm.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/device_ops.h"
#include "engine/ops/linear/gemv.h"
#include "engine/ops/pointwise/elementwise.h"

namespace longhaul {
namespace {

using cpu::GemmCase;
using cpu::Index;

std::string text_of(const GemmCase& c) {
  return format("gemm m={} n={} k={} ta={} tb={} strides=({}, {}, {}) ab={} c={}", c.m, c.n, c.k, c.transpose_a,
                c.transpose_b, c.row_stride_a, c.row_stride_b, c.row_stride_c, dtype_name(c.ab), dtype_name(c.c));
}

// Elements that a stored matrix of `rows` x `columns` spans.
Index extent(Index rows, Index columns, Index stride) {
  return rows == 0 ? 0 : (rows - 1) * stride + columns;
}

void check(const GemmCase& c, ConstView a, ConstView b, View out) {
  const Index a_rows = c.transpose_a ? c.k : c.m, a_columns = c.transpose_a ? c.m : c.k;
  const Index b_rows = c.transpose_b ? c.n : c.k, b_columns = c.transpose_b ? c.k : c.n;
  LH_ASSERT(a.dtype() == b.dtype() && (c.ab == DType::f32 || c.ab == DType::bf16), text_of(c));
  LH_ASSERT(c.c == DType::f32 || (c.c == DType::bf16 && c.ab == DType::bf16), text_of(c));
  LH_ASSERT(c.row_stride_a >= a_columns && c.row_stride_b >= b_columns && c.row_stride_c >= c.n, text_of(c));
  LH_ASSERT(a.size() >= extent(a_rows, a_columns, c.row_stride_a), text_of(c) + ": A " + a.shape().text());
  LH_ASSERT(b.size() >= extent(b_rows, b_columns, c.row_stride_b), text_of(c) + ": B " + b.shape().text());
  LH_ASSERT(out.size() >= extent(c.m, c.n, c.row_stride_c), text_of(c) + ": C " + out.shape().text());
}

}  // namespace

void gemm_packed(const ComputeContext& context, const GemmShape& shape, ConstView a, ConstView b, View c) {
  const GemmCase key = cpu::gemm_case(shape, a.dtype(), c.dtype());
  check(key, a, b, c);
  if (key.m == 0 || key.n == 0) return;
  cpu::packed_gemm(context, key, a, b, c);
}

void gemm(const ComputeContext& context, const GemmShape& shape, ConstView a, ConstView b, View c) {
  if (const DeviceOps* device = context.device_ops()) return device->gemm(shape, a, b, c);
  const GemmCase key = cpu::gemm_case(shape, a.dtype(), c.dtype());
  check(key, a, b, c);
  if (key.m == 0 || key.n == 0) return;
  if (key.k == 0 || gemm_is_packed(context, key.ab) || !cpu::onednn_gemm(context, shape, a, b, c))
    cpu::packed_gemm(context, key, a, b, c);
  context.between();
}

bool gemm_is_packed(const ComputeContext& context, DType ab) {
  return cpu::choose_product(ab, cpu::product_means(context)) == cpu::ProductPath::packed;
}

bool gemm_compiles(const ComputeContext& context, DType ab) {
  return !gemm_is_packed(context, ab) && cpu::onednn_compiles(context, ab);
}

namespace {

// Column sums in token order, over fixed chunks of tokens.
template <class T>
void bias_gradient(const ComputeContext& context, LinearShape shape, const T* dy, float* dbias, bool accumulate) {
  constexpr Index chunk = 128;
  const Index chunks = (shape.tokens + chunk - 1) / chunk;
  std::vector<float> parts(static_cast<std::size_t>(chunks * shape.out), 0.0F);
  const cpu::Kernels& kernels = cpu::kernels(context);
  parallel_chunks(context, shape.tokens, chunk, [&](Index begin, Index end) {
    float* part = parts.data() + begin / chunk * shape.out;
    for (Index t = begin; t < end; ++t) kernels.of<T>().accumulate_f32(dy + t * shape.out, part, shape.out);
  });
  if (!accumulate) std::fill(dbias, dbias + shape.out, 0.0F);
  for (Index i = 0; i < chunks; ++i) kernels.axpy(1.0F, parts.data() + i * shape.out, dbias, shape.out);
}

}  // namespace

namespace {

// The bias in the same pass; false: not here, nothing was written.
bool gemm_with_bias(const ComputeContext& context, const GemmShape& shape, ConstView a, ConstView b, ConstView bias,
                    View c) {
  check(cpu::gemm_case(shape, a.dtype(), c.dtype()), a, b, c);
  return shape.k > 0 && !gemm_is_packed(context, a.dtype()) && cpu::onednn_gemm(context, shape, a, b, c, bias);
}

}  // namespace

void linear_forward(const ComputeContext& context, LinearShape shape, ConstView x, ConstView weight, View y,
                    ConstView bias) {
  if (const DeviceOps* device = context.device_ops()) return device->linear_forward(shape, x, weight, y, bias);
  LH_ASSERT(bias.empty() || (bias.dtype() == y.dtype() && bias.size() == shape.out), bias.shape().text());
  if (shape.tokens <= kGemvTokensMax) {
    gemv(context, shape, x, weight, y);
  } else {
    GemmShape g{.m = shape.tokens, .n = shape.out, .k = shape.in};
    g.transpose_b = true;
    if (!bias.empty() && gemm_with_bias(context, g, x, weight, bias, y)) return context.between();
    gemm(context, g, x, weight, y);
  }
  if (bias.empty()) return;
  add_to_rows(context, bias, shape.tokens, y);
}

void linear_backward_input(const ComputeContext& context, LinearShape shape, ConstView dy, ConstView weight, View dx,
                           bool accumulate) {
  if (const DeviceOps* device = context.device_ops())
    return device->linear_backward_input(shape, dy, weight, dx, accumulate);
  GemmShape g{.m = shape.tokens, .n = shape.in, .k = shape.out};
  g.beta = accumulate ? 1.0F : 0.0F;
  gemm(context, g, dy, weight, dx);
}

void linear_backward_weight(const ComputeContext& context, LinearShape shape, ConstView dy, ConstView x, View dweight,
                            View dbias, bool accumulate) {
  if (const DeviceOps* device = context.device_ops())
    return device->linear_backward_weight(shape, dy, x, dweight, dbias, accumulate);
  LH_ASSERT(dweight.dtype() == DType::f32, "gradients of weights are f32");
  GemmShape g{.m = shape.out, .n = shape.in, .k = shape.tokens};
  g.transpose_a = true;
  g.beta = accumulate ? 1.0F : 0.0F;
  gemm(context, g, dy, x, dweight);
  if (!dbias.empty()) linear_backward_bias(context, shape, dy, dbias, accumulate);
}

void linear_backward_bias(const ComputeContext& context, LinearShape shape, ConstView dy, View dbias, bool accumulate) {
  if (const DeviceOps* device = context.device_ops()) return device->linear_backward_bias(shape, dy, dbias, accumulate);
  LH_ASSERT(dbias.size() == shape.out, dbias.shape().text());
  if (dy.dtype() == DType::f32) return bias_gradient(context, shape, dy.as<float>(), dbias.as<float>(), accumulate);
  bias_gradient(context, shape, dy.as<bf16>(), dbias.as<float>(), accumulate);
}

}  // namespace longhaul
