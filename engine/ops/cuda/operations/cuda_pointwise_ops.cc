#include "engine/ops/cuda/operations/cuda_pointwise_ops.h"

#include <algorithm>
#include <cmath>

#include "base/text/text.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cuda/loss/digest_kernels.h"
#include "engine/ops/cuda/pointwise/line_kernels.h"
#include "engine/ops/cuda/pointwise/pointwise_kernels.h"
#include "engine/ops/cuda/pointwise/row_block_kernels.h"
#include "engine/ops/cuda/pointwise/table_kernels.h"
#include "engine/ops/cuda/pointwise/update_kernels.h"

namespace longhaul::cuda {

using cpu::check_size;
using cpu::elements;
using cpu::with_float_type;

void CudaPointwiseOps::add(ConstView a, ConstView b, View out) const {
  const Index n = out.size();
  with_float_type(out.dtype(), "add", [&](auto type) {
    using T = decltype(type);
    cuda::add<T>(work_.stream, n, elements<T>(a, n, "a"), elements<T>(b, n, "b"), elements<T>(out, n, "out"));
  });
}

void CudaPointwiseOps::add_to_rows(ConstView x, std::int64_t rows, View y) const {
  with_float_type(y.dtype(), "add_to_rows", [&](auto type) {
    using T = decltype(type);
    cuda::add_to_rows<T>(work_.stream, rows, x.size(), elements<T>(x, x.size(), "x"),
                         elements<T>(y, rows * x.size(), "y"));
  });
}

void CudaPointwiseOps::axpy(float alpha, ConstFloats x, Floats y) const {
  check_size(x.size(), static_cast<Index>(y.size()), "axpy x");
  cuda::axpy(work_.stream, static_cast<Index>(y.size()), alpha, x.data(), y.data());
}

void CudaPointwiseOps::scale(float alpha, Floats x) const {
  cuda::scale(work_.stream, static_cast<Index>(x.size()), alpha, x.data());
}

void CudaPointwiseOps::fill(View x, float value) const {
  with_float_type(x.dtype(), "fill", [&](auto type) {
    using T = decltype(type);
    cuda::fill<T>(work_.stream, x.size(), value, elements<T>(x, x.size(), "x"));
  });
}

void CudaPointwiseOps::cast(ConstView x, View out) const {
  LH_ASSERT(x.size() == out.size(), x.shape().text() + " -> " + out.shape().text());
  with_float_type(x.dtype(), "cast", [&](auto from) {
    with_float_type(out.dtype(), "cast", [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      cuda::cast<From, To>(work_.stream, x.size(), elements<From>(x, x.size(), "x"),
                           elements<To>(out, x.size(), "out"));
    });
  });
}

double CudaPointwiseOps::flat_sum(int kind, ConstFloats x) const {
  const auto n = static_cast<Index>(x.size());
  if (n == 0) return 0;
  auto* parts = reinterpret_cast<double*>(work_.scratch(0, (flat_sum_parts(n) + 1) * 8));
  double* const on_device = parts + flat_sum_parts(n);
  cuda::flat_sum(work_.stream, static_cast<FlatSum>(kind), n, x.data(), parts, on_device);
  double sum = 0;
  work_.device.copy_out(on_device, &sum, sizeof sum);
  return sum;
}
double CudaPointwiseOps::sum(ConstFloats x) const {
  return flat_sum(static_cast<int>(FlatSum::value), x);
}
double CudaPointwiseOps::sum_of_squares(ConstFloats x) const {
  return flat_sum(static_cast<int>(FlatSum::square), x);
}
bool CudaPointwiseOps::any_not_finite(ConstFloats x) const {
  return flat_sum(static_cast<int>(FlatSum::not_finite), x) != 0;
}

void CudaPointwiseOps::swiglu_forward(SwiGluShape s, ConstView gate, ConstView up, View out) const {
  const Index stride = s.row_stride == 0 ? s.ffn : s.row_stride, extent = rows_extent(s.tokens, stride, s.ffn);
  with_float_type(out.dtype(), "swiglu", [&](auto type) {
    using T = decltype(type);
    cuda::swiglu_forward<T>(work_.stream, s.tokens, s.ffn, stride, elements<T>(gate, extent, "gate"),
                            elements<T>(up, extent, "up"), elements<T>(out, s.tokens * s.ffn, "out"));
  });
}

void CudaPointwiseOps::swiglu_backward(SwiGluShape s, ConstView dout, ConstView gate, ConstView up, View dgate,
                                       View dup) const {
  const Index stride = s.row_stride == 0 ? s.ffn : s.row_stride, extent = rows_extent(s.tokens, stride, s.ffn);
  with_float_type(dout.dtype(), "swiglu", [&](auto type) {
    using T = decltype(type);
    cuda::swiglu_backward<T>(work_.stream, s.tokens, s.ffn, stride, elements<T>(dout, s.tokens * s.ffn, "dout"),
                             elements<T>(gate, extent, "gate"), elements<T>(up, extent, "up"),
                             elements<T>(dgate, extent, "dgate"), elements<T>(dup, extent, "dup"));
  });
}

void CudaPointwiseOps::gelu_forward(ConstView x, View y) const {
  with_float_type(y.dtype(), "gelu", [&](auto type) {
    using T = decltype(type);
    cuda::gelu_forward<T>(work_.stream, y.size(), elements<T>(x, y.size(), "x"), elements<T>(y, y.size(), "y"));
  });
}

void CudaPointwiseOps::gelu_backward(ConstView dy, ConstView x, View dx) const {
  with_float_type(dx.dtype(), "gelu", [&](auto type) {
    using T = decltype(type);
    const Index n = dx.size();
    cuda::gelu_backward<T>(work_.stream, n, elements<T>(dy, n, "dy"), elements<T>(x, n, "x"), elements<T>(dx, n, "dx"));
  });
}

void CudaPointwiseOps::multiply_by_mask(const DropoutMask& mask, float less, std::int64_t rows, std::int64_t columns,
                                        ConstView x, View out) const {
  constexpr std::uint64_t places = 1U << 16, streams = 1ULL << 63;  // as in cpu/dropout.cc
  LH_ASSERT(mask.drops() && mask.rate < 1 && mask.place >= 0 && mask.place < static_cast<Index>(places),
            format("dropout of {} at place {}", mask.rate, mask.place));
  const auto threshold = static_cast<std::uint32_t>(std::lround(mask.rate * 65536.0));
  with_float_type(out.dtype(), "dropout", [&](auto type) {
    using T = decltype(type);
    cuda::dropout<T>(work_.stream,
                     {rows, columns, mask.first_column, mask.row_columns > 0 ? mask.row_columns : columns, mask.seed,
                      streams, places, static_cast<std::uint64_t>(mask.place), mask.sample, mask.length, mask.first,
                      mask.offset, threshold, 65536.0F / static_cast<float>(65536U - threshold), less,
                      elements<T>(x, rows * columns, "x"), elements<T>(out, rows * columns, "out")});
  });
}
void CudaPointwiseOps::dropout(const DropoutMask& mask, std::int64_t rows, std::int64_t columns, ConstView x,
                               View out) const {
  multiply_by_mask(mask, 0, rows, columns, x, out);
}
void CudaPointwiseOps::dropout_change(const DropoutMask& mask, std::int64_t rows, std::int64_t columns, ConstView x,
                                      View out) const {
  multiply_by_mask(mask, 1, rows, columns, x, out);
}

void CudaPointwiseOps::embedding_forward(EmbeddingShape s, Ids ids, ConstView table, View out) const {
  check_size(ids.size(), s.tokens, "ids");
  with_float_type(table.dtype(), "embedding", [&](auto type) {
    using T = decltype(type);
    cuda::embedding_forward<T>(work_.stream, s.tokens, s.hidden, ids.data(),
                               elements<T>(table, s.vocab * s.hidden, "table"),
                               elements<T>(out, s.tokens * s.hidden, "out"));
  });
}

void CudaPointwiseOps::embedding_backward(EmbeddingShape s, Ids ids, ConstView dout, Floats dtable) const {
  check_size(ids.size(), s.tokens, "ids");
  check_size(dtable.size(), s.vocab * s.hidden, "dtable");
  auto* links = reinterpret_cast<std::int32_t*>(work_.scratch(0, 2 * s.tokens * 4));
  with_float_type(dout.dtype(), "embedding", [&](auto type) {
    using T = decltype(type);
    cuda::embedding_backward<T>(work_.stream, s.tokens, s.hidden, ids.data(),
                                elements<T>(dout, s.tokens * s.hidden, "dout"), dtable.data(), links);
  });
}

void CudaPointwiseOps::adamw_update(const AdamWStep& step, Floats master, View m, View v, ConstFloats grad,
                                    View compute_copy, const AdamWRounding* rounding) const {
  const auto n = static_cast<Index>(master.size());
  if (n == 0) return;
  check_size(grad.size(), n, "grad");
  LH_ASSERT(step.step >= 1, std::to_string(step.step));
  LH_ASSERT(compute_copy.empty() || compute_copy.size() == n, compute_copy.shape().text());
  const double t = static_cast<double>(step.step);
  const auto update = [&](auto of_m, auto of_v) {
    using M = decltype(of_m);
    using V = decltype(of_v);
    AdamW<M, V> p{};
    p.n = n;
    p.decay = static_cast<float>(1.0 - step.lr * step.weight_decay);
    p.beta1 = static_cast<float>(step.beta1), p.beta2 = static_cast<float>(step.beta2);
    p.step_size = static_cast<float>(step.lr / (1.0 - std::pow(step.beta1, t)));
    p.inverse_root_correction2 = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(step.beta2, t)));
    p.eps = static_cast<float>(step.eps), p.grad_scale = step.grad_scale;
    p.master = master.data(), p.grad = grad.data();
    p.m = elements<M>(m, n, "m"), p.v = elements<V>(v, n, "v");
    if (!compute_copy.empty() && compute_copy.dtype() == DType::bf16) p.copy = compute_copy.as<bf16>();
    if (!compute_copy.empty() && compute_copy.dtype() == DType::f32) p.wide_copy = compute_copy.as<float>();
    if (rounding != nullptr)
      p.stochastic = true, p.random = rounding->random, p.order = rounding->order, p.first = rounding->begin;
    cuda::adamw<M, V>(work_.stream, p);
  };
  if (m.dtype() == DType::f32 && v.dtype() == DType::f32) return update(float{}, float{});
  LH_ASSERT(m.dtype() == DType::bf16 && (v.dtype() == DType::bf16 || v.dtype() == DType::f32),
            std::string("moments in ") + dtype_name(m.dtype()) + " and " + dtype_name(v.dtype()));
  if (v.dtype() == DType::bf16) return update(bf16{}, bf16{});
  update(bf16{}, float{});
}

namespace {

Index extent_of(const RowBlockShape& s, Index stride) {
  return s.rows == 0 ? 0 : (s.rows - 1) * stride + s.columns;
}

}  // namespace

void CudaPointwiseOps::copy_rows(const RowBlockShape& s, ConstView from, View to) const {
  with_float_type(from.dtype(), "copy_rows", [&](auto of_from) {
    with_float_type(to.dtype(), "copy_rows", [&](auto of_to) {
      using T = decltype(of_from);
      using S = decltype(of_to);
      cuda::copy_rows(work_.stream, s.rows, s.columns, s.from_stride, s.to_stride,
                      elements<T>(from, extent_of(s, s.from_stride), "from"),
                      elements<S>(to, extent_of(s, s.to_stride), "to"));
    });
  });
}

void CudaPointwiseOps::add_rows(const RowBlockShape& s, ConstView from, Floats to) const {
  check_size(to.size(), extent_of(s, s.to_stride), "to");
  with_float_type(from.dtype(), "add_rows", [&](auto type) {
    using T = decltype(type);
    cuda::add_rows(work_.stream, s.rows, s.columns, s.from_stride, s.to_stride,
                   elements<T>(from, extent_of(s, s.from_stride), "from"), to.data());
  });
}

// Sizes were checked.
void CudaPointwiseOps::dots_of_lines(MatrixLine line, ConstView a, ConstView b, bool accumulate, Floats out) const {
  const LineDots dots{a.shape()[0], a.shape()[1], a.as<float>(), b.as<float>(), accumulate, out.data()};
  line == MatrixLine::row ? dots_of_rows(work_.stream, dots) : dots_of_columns(work_.stream, dots);
}

void CudaPointwiseOps::scale_lines(MatrixLine line, ConstFloats factors, View matrix) const {
  const auto scale_each = line == MatrixLine::row ? scale_rows : scale_columns;
  scale_each(work_.stream, matrix.shape()[0], matrix.shape()[1], factors.data(), matrix.as<float>());
}

void CudaPointwiseOps::divide_by_roots(ConstFloats x, ConstFloats squares, bool accumulate, Floats out) const {
  cuda::divide_by_roots(work_.stream, static_cast<Index>(out.size()), x.data(), squares.data(), accumulate, out.data());
}

void CudaPointwiseOps::sums_of_squares(std::span<const ConstFloats> parts, std::span<double> sums) const {
  if (parts.empty()) return;
  Index largest = 0;
  for (const ConstFloats& part : parts) largest = std::max(largest, flat_sum_parts(static_cast<Index>(part.size())));
  const auto count = static_cast<Index>(parts.size());
  auto* const totals = reinterpret_cast<double*>(work_.scratch(0, (count + largest) * 8));
  work_.device.zero(totals, count * 8);  // an empty part starts no kernel
  for (Index i = 0; i < count; ++i) {
    const ConstFloats& part = parts[static_cast<std::size_t>(i)];
    if (!part.empty())
      cuda::flat_sum(work_.stream, FlatSum::square, static_cast<Index>(part.size()), part.data(), totals + count,
                     totals + i);
  }
  work_.device.copy_out(totals, sums.data(), count * 8);
}

void CudaPointwiseOps::digest_parts(ConstFloats x, std::span<std::uint64_t> out) const {
  const auto n = static_cast<Index>(x.size()), parts = static_cast<Index>(out.size());
  auto* const partial = reinterpret_cast<std::uint64_t*>(work_.scratch(0, digest_partials(n, parts) * 8));
  cuda::digest_parts(work_.stream, n, x.data(), parts, partial, out.data());
}

}  // namespace longhaul::cuda
