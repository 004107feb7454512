// Products of few rows: token-by-token generation.
#include <cmath>
#include <vector>

#include "base/text/text.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cuda/attention/kv_table_kernels.h"
#include "engine/ops/cuda/linear/decode_kernels.h"
#include "engine/ops/cuda/operations/cuda_linear_ops.h"

namespace longhaul::cuda {

using cpu::check_size;
using cpu::elements;
using cpu::with_float_type;

void CudaLinearOps::gemv(LinearShape s, ConstView x, ConstView weight, View y) const {
  LH_ASSERT(s.tokens <= product_tokens_max, format("{} tokens, at most {}", s.tokens, product_tokens_max));
  with_float_type(x.dtype(), "gemv", [&](auto of_x) {
    with_float_type(weight.dtype(), "gemv", [&](auto of_w) {
      with_float_type(y.dtype(), "gemv", [&](auto of_y) {
        using X = decltype(of_x);
        using W = decltype(of_w);
        using Y = decltype(of_y);
        few_rows_product(work_.stream, FewRows<X, W, Y>{s.tokens, s.in, s.out, elements<X>(x, s.tokens * s.in, "x"),
                                                        elements<W>(weight, s.in * s.out, "weight"), nullptr,
                                                        elements<Y>(y, s.tokens * s.out, "y")});
      });
    });
  });
}

// More rows than that: the weights in x's type, all of them, then a product.
void CudaLinearOps::linear_forward_int8(LinearShape s, ConstView x, ConstView q, ConstFloats scales, View y) const {
  check_size(scales.size(), s.out, "scales");
  const auto* const weight = elements<std::int8_t>(q, s.in * s.out, "q");
  with_float_type(x.dtype(), "linear_forward_int8", [&](auto of_x) {
    using X = decltype(of_x);
    if (s.tokens > product_tokens_max) {
      auto* const wide = reinterpret_cast<X*>(work_.scratch(0, s.in * s.out * static_cast<Index>(sizeof(X))));
      dequantize_rows(work_.stream, s.out, s.in, weight, scales.data(), wide);
      return linear_forward(s, x, ConstView(wide, Shape{s.out, s.in}), y, {});
    }
    with_float_type(y.dtype(), "linear_forward_int8", [&](auto of_y) {
      using Y = decltype(of_y);
      few_rows_product(work_.stream,
                       FewRows<X, std::int8_t, Y>{s.tokens, s.in, s.out, elements<X>(x, s.tokens * s.in, "x"), weight,
                                                  scales.data(), elements<Y>(y, s.tokens * s.out, "y")});
    });
  });
}

void CudaLinearOps::embedding_int8(LinearShape s, Ids ids, ConstView q, ConstFloats scales, View out) const {
  const auto* const table = elements<std::int8_t>(q, s.in * s.out, "q");
  with_float_type(out.dtype(), "embedding_int8", [&](auto type) {
    using T = decltype(type);
    cuda::embedding_int8(work_.stream, s.tokens, s.in, ids.data(), table, scales.data(),
                         elements<T>(out, s.tokens * s.in, "out"));
  });
}

}  // namespace longhaul::cuda
