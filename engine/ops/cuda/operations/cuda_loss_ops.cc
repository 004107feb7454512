#include "engine/ops/cuda/operations/cuda_loss_ops.h"

#include <algorithm>
#include <array>

#include "base/text/text.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cuda/loss/loss_kernels.h"

namespace longhaul::cuda {

using cpu::check_size;
using cpu::elements;
using cpu::with_float_type;

void CudaLossOps::cross_entropy_forward(CrossEntropyShape s, ConstView logits, Ids targets, Floats loss) const {
  check_size(targets.size(), s.tokens, "targets"), check_size(loss.size(), s.tokens, "loss");
  with_float_type(logits.dtype(), "cross_entropy", [&](auto type) {
    using T = decltype(type);
    cuda::cross_entropy<T>(work_.stream, {s.tokens, s.vocab, s.vocab, elements<T>(logits, s.tokens * s.vocab, "logits"),
                                          targets.data(), nullptr, loss.data(), nullptr});
  });
}

void CudaLossOps::cross_entropy_forward_backward(CrossEntropyShape s, ConstView logits, Ids targets,
                                                 ConstFloats weights, Floats loss, View dlogits) const {
  check_size(targets.size(), s.tokens, "targets"), check_size(loss.size(), s.tokens, "loss");
  check_size(weights.size(), s.tokens, "weights");
  with_float_type(logits.dtype(), "cross_entropy", [&](auto type) {
    using T = decltype(type);
    const Index n = s.tokens * s.vocab;
    cuda::cross_entropy<T>(work_.stream, {s.tokens, s.vocab, s.vocab, elements<T>(logits, n, "logits"), targets.data(),
                                          weights.data(), loss.data(), elements<T>(dlogits, n, "dlogits")});
  });
}

// Logits are kept in the type of the model, never in f32 where that is bf16: they are written once by the product,
// which sums in f32, and become their own gradient in place. Elsewhere than at multiples of 16 bytes cuBLASLt has only
// products that read an element at a time, at a fifth of the speed, and for sizes that are no multiples of eight as
// well. So rows of logits begin at multiples of 128 bytes whatever the vocabulary, and its last few tokens are products
// of their own; in the gradient of x they come first, so that the sum is rounded to its type once.
void CudaLossOps::lm_head_loss(const LmHeadShape& s, ConstView x, ConstView weight, Ids targets, ConstFloats weights,
                               Floats loss, View dx, View dweight) const {
  check_size(targets.size(), s.tokens, "targets"), check_size(loss.size(), s.tokens, "loss");
  LH_ASSERT(s.chunk_tokens >= 1 && (!dx.empty() || dweight.empty()), std::to_string(s.chunk_tokens));
  if (!dx.empty()) check_size(weights.size(), s.tokens, "weights");
  const Index chunk = std::min(s.chunk_tokens, s.tokens), stride = (s.vocab + 63) / 64 * 64;
  const Index even = s.vocab / 8 * 8;
  // [begin, end) of the vocabulary: the few behind the even ones, then those.
  const std::array<std::array<Index, 2>, 2> parts = {{{even, s.vocab}, {0, even}}};
  std::byte* const logits = work_.scratch(2, chunk * stride * dtype_bytes(x.dtype()));
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
      linear_.gemm(forward, rows, all_w.rows(first, last), columns(first));
    }
    with_float_type(x.dtype(), "lm_head_loss", [&](auto type) {
      using T = decltype(type);
      T* const z = reinterpret_cast<T*>(logits);
      cuda::cross_entropy<T>(work_.stream,
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
      linear_.gemm(input, columns(first), all_w.rows(first, last), dx_rows);
      written = true;
      if (dweight.empty()) continue;
      GemmShape gradient{.m = last - first, .n = s.hidden, .k = n};
      gradient.transpose_a = true, gradient.row_stride_a = stride;
      gradient.beta = begin != 0 || s.accumulate ? 1.0F : 0.0F;
      linear_.gemm(gradient, columns(first), rows, dweight.reshaped({s.vocab, s.hidden}).rows(first, last));
    }
  }
}

}  // namespace longhaul::cuda
