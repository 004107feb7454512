#include "engine/ops/cuda/cuda_ops.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text/text.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cuda/common/row_parts.h"
#include "engine/ops/cuda/loss/loss_kernels.h"
#include "engine/ops/cuda/pointwise/layernorm_kernels.h"
#include "engine/ops/cuda/pointwise/norm_backward.h"
#include "engine/ops/cuda/pointwise/norm_kernels.h"
#include "engine/ops/cuda/pointwise/pointwise_kernels.h"
#include "engine/ops/cuda/pointwise/table_kernels.h"
#include "engine/ops/cuda/pointwise/update_kernels.h"
#include "engine/ops/linear/gemv.h"

namespace longhaul::cuda {
namespace {

using cpu::check_size;
using cpu::elements;
using cpu::with_float_type;

template <class S>
auto* data_or_null(S span) {
  return span.empty() ? nullptr : span.data();
}
template <class T>
const T* elements_or_null(const ConstView& view, Index size, const char* name) {
  return view.empty() ? nullptr : elements<T>(view, size, name);
}
Index rows_extent(Index rows, Index stride, Index columns) {
  return rows == 0 ? 0 : (rows - 1) * stride + columns;
}

}  // namespace

std::byte* CudaOps::scratch(int slot, std::int64_t bytes) const {
  if (scratch_[slot].bytes() < bytes) {
    scratch_[slot] = DeviceMemory();
    scratch_[slot] = DeviceMemory(device_, bytes);
  }
  return scratch_[slot].data();
}

void CudaOps::gemm(const GemmShape& shape, ConstView a, ConstView b, View c) const {
  if (shape.k > 0) return gemm_.run(stream_, shape, a, b, c);
  // A sum of nothing, which libraries refuse.
  LH_ASSERT(shape.row_stride_c == 0 && (shape.beta == 0.0F || shape.beta == 1.0F), "an empty product into a part");
  if (shape.beta == 0.0F) fill(View(c.data(), c.dtype(), Shape{shape.m * shape.n}), 0.0F);
}

void CudaOps::linear_forward(LinearShape s, ConstView x, ConstView weight, View y, ConstView bias) const {
  GemmShape shape{.m = s.tokens, .n = s.out, .k = s.in};
  shape.transpose_b = true;
  if (s.tokens <= kGemvTokensMax) {
    gemv(s, x, weight, y);
  } else {
    if (!bias.empty() && gemm_.run_fused(stream_, shape, x, weight, y, {GemmEpilogue::What::bias, bias})) return;
    gemm(shape, x, weight, y);
  }
  if (!bias.empty()) add_to_rows(bias, s.tokens, y);
}

void CudaOps::linear_backward_input(LinearShape s, ConstView dy, ConstView weight, View dx, bool accumulate) const {
  GemmShape shape{.m = s.tokens, .n = s.in, .k = s.out};
  shape.beta = accumulate ? 1.0F : 0.0F;
  gemm(shape, dy, weight, dx);
}

void CudaOps::linear_backward_weight(LinearShape s, ConstView dy, ConstView x, View dweight, View dbias,
                                     bool accumulate) const {
  GemmShape shape{.m = s.out, .n = s.in, .k = s.tokens};
  shape.transpose_a = true;
  shape.beta = accumulate ? 1.0F : 0.0F;
  gemm(shape, dy, x, dweight);
  if (!dbias.empty()) linear_backward_bias(s, dy, dbias, accumulate);
}

void CudaOps::linear_backward_bias(LinearShape s, ConstView dy, View dbias, bool accumulate) const {
  const Index blocks = column_sum_blocks(s.tokens);
  auto* parts = reinterpret_cast<float*>(scratch(0, blocks * s.out * 4));
  with_float_type(dy.dtype(), "linear_backward_bias", [&](auto type) {
    using T = decltype(type);
    column_sums<T>(stream_, s.tokens, s.out, elements<T>(dy, s.tokens * s.out, "dy"), parts,
                   elements<float>(dbias, s.out, "dbias"), accumulate);
  });
}

void CudaOps::rmsnorm_forward(RmsNormShape s, ConstView x, ConstView weight, View y, Floats inv_rms) const {
  const Index n = s.tokens * s.hidden;
  if (!inv_rms.empty()) check_size(inv_rms.size(), s.tokens, "inv_rms");
  with_float_type(x.dtype(), "rmsnorm", [&](auto type) {
    using T = decltype(type);
    cuda::rmsnorm_forward<T>(stream_,
                             {elements<T>(x, n, "x"), nullptr, elements<T>(weight, s.hidden, "weight"), nullptr,
                              elements<T>(y, n, "y"), data_or_null(inv_rms), s.tokens, s.hidden, s.eps});
  });
}

void CudaOps::add_rmsnorm_forward(RmsNormShape s, ConstView a, ConstView b, ConstView weight, View sum, View y,
                                  Floats inv_rms) const {
  const Index n = s.tokens * s.hidden;
  if (!inv_rms.empty()) check_size(inv_rms.size(), s.tokens, "inv_rms");
  with_float_type(a.dtype(), "add_rmsnorm", [&](auto type) {
    using T = decltype(type);
    cuda::rmsnorm_forward<T>(stream_, {elements<T>(a, n, "a"), elements<T>(b, n, "b"),
                                       elements<T>(weight, s.hidden, "weight"), elements<T>(sum, n, "sum"),
                                       elements<T>(y, n, "y"), data_or_null(inv_rms), s.tokens, s.hidden, s.eps});
  });
}

void CudaOps::rmsnorm_backward(RmsNormShape s, ConstView dy, ConstView x, ConstView weight, ConstFloats inv_rms,
                               View dx, Floats dweight, bool accumulate_dx) const {
  const Index n = s.tokens * s.hidden;
  check_size(inv_rms.size(), s.tokens, "inv_rms");
  if (!dweight.empty()) check_size(dweight.size(), s.hidden, "dweight");
  auto* parts = reinterpret_cast<float*>(scratch(0, norm_backward_blocks(s.tokens, s.hidden) * s.hidden * 4));
  with_float_type(x.dtype(), "rmsnorm", [&](auto type) {
    using T = decltype(type);
    cuda::norm_backward<T, false>(
        stream_,
        {elements<T>(dy, n, "dy"), elements<T>(x, n, "x"), elements<T>(weight, s.hidden, "weight"), inv_rms.data(),
         elements<T>(dx, n, "dx"), data_or_null(dweight), nullptr, parts, s.tokens, s.hidden, accumulate_dx});
  });
}

void CudaOps::layernorm_forward(LayerNormShape s, ConstView x, ConstView weight, ConstView bias, View y,
                                Floats statistics) const {
  const Index n = s.tokens * s.hidden;
  if (!statistics.empty()) check_size(statistics.size(), 2 * s.tokens, "statistics");
  with_float_type(x.dtype(), "layernorm", [&](auto type) {
    using T = decltype(type);
    cuda::layernorm_forward<T>(
        stream_, {elements<T>(x, n, "x"), nullptr, nullptr, elements<T>(weight, s.hidden, "weight"),
                  elements<T>(bias, s.hidden, "bias"), nullptr, elements<T>(y, n, "y"), data_or_null(statistics),
                  s.tokens, s.hidden, s.eps});
  });
}

void CudaOps::add_layernorm_forward(LayerNormShape s, ConstView a, ConstView b, ConstView column_bias, ConstView weight,
                                    ConstView bias, View sum, View y, Floats statistics) const {
  const Index n = s.tokens * s.hidden;
  if (!statistics.empty()) check_size(statistics.size(), 2 * s.tokens, "statistics");
  with_float_type(a.dtype(), "add_layernorm", [&](auto type) {
    using T = decltype(type);
    cuda::layernorm_forward<T>(
        stream_,
        {elements<T>(a, n, "a"), elements<T>(b, n, "b"), elements_or_null<T>(column_bias, s.hidden, "column_bias"),
         elements<T>(weight, s.hidden, "weight"), elements<T>(bias, s.hidden, "bias"), elements<T>(sum, n, "sum"),
         elements<T>(y, n, "y"), data_or_null(statistics), s.tokens, s.hidden, s.eps});
  });
}

void CudaOps::layernorm_backward(LayerNormShape s, ConstView dy, ConstView x, ConstView weight, ConstFloats statistics,
                                 View dx, Floats dweight, Floats dbias, bool accumulate_dx) const {
  const Index n = s.tokens * s.hidden;
  check_size(statistics.size(), 2 * s.tokens, "statistics");
  LH_ASSERT(dweight.empty() == dbias.empty(), "both gradients or none");
  auto* parts = reinterpret_cast<float*>(scratch(0, norm_backward_blocks(s.tokens, s.hidden) * 2 * s.hidden * 4));
  with_float_type(x.dtype(), "layernorm", [&](auto type) {
    using T = decltype(type);
    cuda::norm_backward<T, true>(
        stream_, {elements<T>(dy, n, "dy"), elements<T>(x, n, "x"), elements<T>(weight, s.hidden, "weight"),
                  statistics.data(), elements<T>(dx, n, "dx"), data_or_null(dweight), data_or_null(dbias), parts,
                  s.tokens, s.hidden, accumulate_dx});
  });
}

void CudaOps::add(ConstView a, ConstView b, View out) const {
  const Index n = out.size();
  with_float_type(out.dtype(), "add", [&](auto type) {
    using T = decltype(type);
    cuda::add<T>(stream_, n, elements<T>(a, n, "a"), elements<T>(b, n, "b"), elements<T>(out, n, "out"));
  });
}

void CudaOps::add_to_rows(ConstView x, std::int64_t rows, View y) const {
  with_float_type(y.dtype(), "add_to_rows", [&](auto type) {
    using T = decltype(type);
    cuda::add_to_rows<T>(stream_, rows, x.size(), elements<T>(x, x.size(), "x"), elements<T>(y, rows * x.size(), "y"));
  });
}

void CudaOps::axpy(float alpha, ConstFloats x, Floats y) const {
  check_size(x.size(), static_cast<Index>(y.size()), "axpy x");
  cuda::axpy(stream_, static_cast<Index>(y.size()), alpha, x.data(), y.data());
}

void CudaOps::scale(float alpha, Floats x) const {
  cuda::scale(stream_, static_cast<Index>(x.size()), alpha, x.data());
}

void CudaOps::fill(View x, float value) const {
  with_float_type(x.dtype(), "fill", [&](auto type) {
    using T = decltype(type);
    cuda::fill<T>(stream_, x.size(), value, elements<T>(x, x.size(), "x"));
  });
}

void CudaOps::cast(ConstView x, View out) const {
  LH_ASSERT(x.size() == out.size(), x.shape().text() + " -> " + out.shape().text());
  with_float_type(x.dtype(), "cast", [&](auto from) {
    with_float_type(out.dtype(), "cast", [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      cuda::cast<From, To>(stream_, x.size(), elements<From>(x, x.size(), "x"), elements<To>(out, x.size(), "out"));
    });
  });
}

double CudaOps::flat_sum(int kind, ConstFloats x) const {
  const auto n = static_cast<Index>(x.size());
  if (n == 0) return 0;
  auto* parts = reinterpret_cast<double*>(scratch(0, (flat_sum_parts(n) + 1) * 8));
  double* const on_device = parts + flat_sum_parts(n);
  cuda::flat_sum(stream_, static_cast<FlatSum>(kind), n, x.data(), parts, on_device);
  double sum = 0;
  device_.copy_out(on_device, &sum, sizeof sum);
  return sum;
}
double CudaOps::sum(ConstFloats x) const {
  return flat_sum(static_cast<int>(FlatSum::value), x);
}
double CudaOps::sum_of_squares(ConstFloats x) const {
  return flat_sum(static_cast<int>(FlatSum::square), x);
}
bool CudaOps::any_not_finite(ConstFloats x) const {
  return flat_sum(static_cast<int>(FlatSum::not_finite), x) != 0;
}

void CudaOps::swiglu_forward(SwiGluShape s, ConstView gate, ConstView up, View out) const {
  const Index stride = s.row_stride == 0 ? s.ffn : s.row_stride, extent = rows_extent(s.tokens, stride, s.ffn);
  with_float_type(out.dtype(), "swiglu", [&](auto type) {
    using T = decltype(type);
    cuda::swiglu_forward<T>(stream_, s.tokens, s.ffn, stride, elements<T>(gate, extent, "gate"),
                            elements<T>(up, extent, "up"), elements<T>(out, s.tokens * s.ffn, "out"));
  });
}

void CudaOps::swiglu_backward(SwiGluShape s, ConstView dout, ConstView gate, ConstView up, View dgate, View dup) const {
  const Index stride = s.row_stride == 0 ? s.ffn : s.row_stride, extent = rows_extent(s.tokens, stride, s.ffn);
  with_float_type(dout.dtype(), "swiglu", [&](auto type) {
    using T = decltype(type);
    cuda::swiglu_backward<T>(stream_, s.tokens, s.ffn, stride, elements<T>(dout, s.tokens * s.ffn, "dout"),
                             elements<T>(gate, extent, "gate"), elements<T>(up, extent, "up"),
                             elements<T>(dgate, extent, "dgate"), elements<T>(dup, extent, "dup"));
  });
}

void CudaOps::gelu_forward(ConstView x, View y) const {
  with_float_type(y.dtype(), "gelu", [&](auto type) {
    using T = decltype(type);
    cuda::gelu_forward<T>(stream_, y.size(), elements<T>(x, y.size(), "x"), elements<T>(y, y.size(), "y"));
  });
}

void CudaOps::gelu_backward(ConstView dy, ConstView x, View dx) const {
  with_float_type(dx.dtype(), "gelu", [&](auto type) {
    using T = decltype(type);
    const Index n = dx.size();
    cuda::gelu_backward<T>(stream_, n, elements<T>(dy, n, "dy"), elements<T>(x, n, "x"), elements<T>(dx, n, "dx"));
  });
}

void CudaOps::rope_apply(RopeShape s, const RopeTable& table, Ids positions, std::int64_t seq, View x,
                         bool inverse) const {
  const Index row = s.heads * s.head_dim, stride = s.row_stride == 0 ? row : s.row_stride;
  LH_ASSERT(table.half_dim * 2 == s.head_dim, format("table of {}, head_dim {}", table.half_dim * 2, s.head_dim));
  LH_ASSERT(stride >= row, format("row_stride {} < {}", stride, row));
  LH_ASSERT(!positions.empty() || (seq > 0 && seq <= table.positions),
            format("seq {} in a table of {} positions", seq, table.positions));
  if (!positions.empty()) check_size(positions.size(), s.tokens, "positions");
  if (s.tokens == 0) return;
  DeviceRope& rope = ropes_[&table];
  const auto size = static_cast<Index>(table.cosines.size());
  if (rope.positions != table.positions || rope.half_dim != table.half_dim || rope.last != table.sines.back()) {
    rope.memory = DeviceMemory();
    rope.memory = DeviceMemory(device_, 2 * size * 4);
    rope.positions = table.positions, rope.half_dim = table.half_dim, rope.last = table.sines.back();
    device_.copy_in(table.cosines.data(), rope.memory.data(), size * 4);
    device_.copy_in(table.sines.data(), rope.memory.data() + size * 4, size * 4);
  }
  const auto* cosines = reinterpret_cast<const float*>(rope.memory.data());
  with_float_type(x.dtype(), "rope", [&](auto type) {
    using T = decltype(type);
    cuda::rope<T>(stream_, {s.tokens, s.heads, s.head_dim, stride, std::max<Index>(seq, 1), cosines, cosines + size,
                            data_or_null(positions), inverse ? -1.0F : 1.0F,
                            elements<T>(x, rows_extent(s.tokens, stride, row), "x")});
  });
}

void CudaOps::dropout(const DropoutMask& mask, std::int64_t rows, std::int64_t columns, ConstView x, View out) const {
  constexpr std::uint64_t places = 1U << 16, streams = 1ULL << 63;  // as in cpu/dropout.cc
  LH_ASSERT(mask.drops() && mask.rate < 1 && mask.place >= 0 && mask.place < static_cast<Index>(places),
            format("dropout of {} at place {}", mask.rate, mask.place));
  const auto threshold = static_cast<std::uint32_t>(std::lround(mask.rate * 65536.0));
  with_float_type(out.dtype(), "dropout", [&](auto type) {
    using T = decltype(type);
    cuda::dropout<T>(
        stream_, {rows, columns, mask.seed, streams, places, static_cast<std::uint64_t>(mask.place), mask.sample,
                  mask.length, mask.first, mask.offset, threshold, 65536.0F / static_cast<float>(65536U - threshold),
                  elements<T>(x, rows * columns, "x"), elements<T>(out, rows * columns, "out")});
  });
}

void CudaOps::embedding_forward(EmbeddingShape s, Ids ids, ConstView table, View out) const {
  check_size(ids.size(), s.tokens, "ids");
  with_float_type(table.dtype(), "embedding", [&](auto type) {
    using T = decltype(type);
    cuda::embedding_forward<T>(stream_, s.tokens, s.hidden, ids.data(), elements<T>(table, s.vocab * s.hidden, "table"),
                               elements<T>(out, s.tokens * s.hidden, "out"));
  });
}

void CudaOps::embedding_backward(EmbeddingShape s, Ids ids, ConstView dout, Floats dtable) const {
  check_size(ids.size(), s.tokens, "ids");
  check_size(dtable.size(), s.vocab * s.hidden, "dtable");
  auto* links = reinterpret_cast<std::int32_t*>(scratch(0, 2 * s.tokens * 4));
  with_float_type(dout.dtype(), "embedding", [&](auto type) {
    using T = decltype(type);
    cuda::embedding_backward<T>(stream_, s.tokens, s.hidden, ids.data(), elements<T>(dout, s.tokens * s.hidden, "dout"),
                                dtable.data(), links);
  });
}

void CudaOps::cross_entropy_forward(CrossEntropyShape s, ConstView logits, Ids targets, Floats loss) const {
  check_size(targets.size(), s.tokens, "targets"), check_size(loss.size(), s.tokens, "loss");
  with_float_type(logits.dtype(), "cross_entropy", [&](auto type) {
    using T = decltype(type);
    cuda::cross_entropy<T>(stream_, {s.tokens, s.vocab, s.vocab, elements<T>(logits, s.tokens * s.vocab, "logits"),
                                     targets.data(), nullptr, loss.data(), nullptr});
  });
}

void CudaOps::cross_entropy_forward_backward(CrossEntropyShape s, ConstView logits, Ids targets, ConstFloats weights,
                                             Floats loss, View dlogits) const {
  check_size(targets.size(), s.tokens, "targets"), check_size(loss.size(), s.tokens, "loss");
  check_size(weights.size(), s.tokens, "weights");
  with_float_type(logits.dtype(), "cross_entropy", [&](auto type) {
    using T = decltype(type);
    const Index n = s.tokens * s.vocab;
    cuda::cross_entropy<T>(stream_, {s.tokens, s.vocab, s.vocab, elements<T>(logits, n, "logits"), targets.data(),
                                     weights.data(), loss.data(), elements<T>(dlogits, n, "dlogits")});
  });
}

// Logits are kept in the type of the model, never in f32 where that is bf16: they are written once by the product,
// which sums in f32, and become their own gradient in place. Elsewhere than at multiples of 16 bytes cuBLASLt has only
// products that read an element at a time, at a fifth of the speed, and for sizes that are no multiples of eight as
// well. So rows of logits begin at multiples of 128 bytes whatever the vocabulary, and its last few tokens are products
// of their own; in the gradient of x they come first, so that the sum is rounded to its type once.
void CudaOps::lm_head_loss(const LmHeadShape& s, ConstView x, ConstView weight, Ids targets, ConstFloats weights,
                           Floats loss, View dx, View dweight) const {
  check_size(targets.size(), s.tokens, "targets"), check_size(loss.size(), s.tokens, "loss");
  LH_ASSERT(s.chunk_tokens >= 1 && (!dx.empty() || dweight.empty()), std::to_string(s.chunk_tokens));
  if (!dx.empty()) check_size(weights.size(), s.tokens, "weights");
  const Index chunk = std::min(s.chunk_tokens, s.tokens), stride = (s.vocab + 63) / 64 * 64;
  const Index even = s.vocab / 8 * 8;
  // [begin, end) of the vocabulary: the few behind the even ones, then those.
  const std::array<std::array<Index, 2>, 2> parts = {{{even, s.vocab}, {0, even}}};
  std::byte* const logits = scratch(2, chunk * stride * dtype_bytes(x.dtype()));
  const ConstView all_x = x.reshaped({s.tokens, s.hidden}), all_w = weight.reshaped({s.vocab, s.hidden});
  for (Index begin = 0; begin < s.tokens; begin += chunk) {
    const Index n = std::min(chunk, s.tokens - begin);
    const auto at = static_cast<std::size_t>(begin), count = static_cast<std::size_t>(n);
    const ConstView rows = all_x.rows(begin, begin + n);
    const auto columns = [&](Index first) {  // of the logits, from `first` on
      return View(logits + first * dtype_bytes(x.dtype()), x.dtype(), Shape{n * stride - first});
    };
    for (const auto& [first, last] : parts) {
      if (first == last) continue;
      GemmShape forward{.m = n, .n = last - first, .k = s.hidden};
      forward.transpose_b = true, forward.row_stride_c = stride;
      gemm(forward, rows, all_w.rows(first, last), columns(first));
    }
    with_float_type(x.dtype(), "lm_head_loss", [&](auto type) {
      using T = decltype(type);
      T* const z = reinterpret_cast<T*>(logits);
      cuda::cross_entropy<T>(stream_,
                             {n, s.vocab, stride, z, targets.data() + at, dx.empty() ? nullptr : weights.data() + at,
                              loss.subspan(at, count).data(), dx.empty() ? nullptr : z});
    });
    if (dx.empty()) continue;
    const View dx_rows = dx.reshaped({s.tokens, s.hidden}).rows(begin, begin + n);
    bool written = false;
    for (const auto& [first, last] : parts) {
      if (first == last) continue;
      GemmShape input{.m = n, .n = s.hidden, .k = last - first};
      input.row_stride_a = stride, input.beta = written ? 1.0F : 0.0F;
      gemm(input, columns(first), all_w.rows(first, last), dx_rows);
      written = true;
      if (dweight.empty()) continue;
      GemmShape gradient{.m = last - first, .n = s.hidden, .k = n};
      gradient.transpose_a = true, gradient.row_stride_a = stride;
      gradient.beta = begin != 0 || s.accumulate ? 1.0F : 0.0F;
      gemm(gradient, columns(first), rows, dweight.reshaped({s.vocab, s.hidden}).rows(first, last));
    }
  }
}

void CudaOps::softmax_rows(std::int64_t rows, std::int64_t columns, ConstView logits, float temperature,
                           Floats probabilities) const {
  check_size(probabilities.size(), rows * columns, "probabilities");
  with_float_type(logits.dtype(), "softmax", [&](auto type) {
    using T = decltype(type);
    cuda::softmax_rows<T>(stream_, rows, columns, elements<T>(logits, rows * columns, "logits"), 1.0F / temperature,
                          probabilities.data());
  });
}

void CudaOps::adamw_update(const AdamWStep& step, Floats master, View m, View v, ConstFloats grad, View compute_copy,
                           const AdamWRounding* rounding) const {
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
    cuda::adamw<M, V>(stream_, p);
  };
  if (m.dtype() == DType::f32 && v.dtype() == DType::f32) return update(float{}, float{});
  LH_ASSERT(m.dtype() == DType::bf16 && (v.dtype() == DType::bf16 || v.dtype() == DType::f32),
            std::string("moments in ") + dtype_name(m.dtype()) + " and " + dtype_name(v.dtype()));
  if (v.dtype() == DType::bf16) return update(bf16{}, bf16{});
  update(bf16{}, float{});
}

}  // namespace longhaul::cuda
