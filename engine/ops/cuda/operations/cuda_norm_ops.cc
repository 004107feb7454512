#include "engine/ops/cuda/operations/cuda_norm_ops.h"

#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cuda/pointwise/layernorm_kernels.h"
#include "engine/ops/cuda/pointwise/norm_backward.h"
#include "engine/ops/cuda/pointwise/norm_kernels.h"

namespace longhaul::cuda {

using cpu::check_size;
using cpu::elements;
using cpu::with_float_type;

void CudaNormOps::rmsnorm_forward(RmsNormShape s, ConstView x, ConstView weight, View y, Floats inv_rms) const {
  const Index n = s.tokens * s.hidden;
  if (!inv_rms.empty()) check_size(inv_rms.size(), s.tokens, "inv_rms");
  with_float_type(x.dtype(), "rmsnorm", [&](auto type) {
    using T = decltype(type);
    cuda::rmsnorm_forward<T>(work_.stream,
                             {elements<T>(x, n, "x"), nullptr, elements<T>(weight, s.hidden, "weight"), nullptr,
                              elements<T>(y, n, "y"), data_or_null(inv_rms), s.tokens, s.hidden, s.eps});
  });
}

void CudaNormOps::add_rmsnorm_forward(RmsNormShape s, ConstView a, ConstView b, ConstView weight, View sum, View y,
                                      Floats inv_rms) const {
  const Index n = s.tokens * s.hidden;
  if (!inv_rms.empty()) check_size(inv_rms.size(), s.tokens, "inv_rms");
  with_float_type(a.dtype(), "add_rmsnorm", [&](auto type) {
    using T = decltype(type);
    cuda::rmsnorm_forward<T>(work_.stream, {elements<T>(a, n, "a"), elements<T>(b, n, "b"),
                                            elements<T>(weight, s.hidden, "weight"), elements<T>(sum, n, "sum"),
                                            elements<T>(y, n, "y"), data_or_null(inv_rms), s.tokens, s.hidden, s.eps});
  });
}

void CudaNormOps::rmsnorm_backward(RmsNormShape s, ConstView dy, ConstView x, ConstView weight, ConstFloats inv_rms,
                                   View dx, Floats dweight, bool accumulate_dx) const {
  const Index n = s.tokens * s.hidden;
  check_size(inv_rms.size(), s.tokens, "inv_rms");
  if (!dweight.empty()) check_size(dweight.size(), s.hidden, "dweight");
  auto* parts = reinterpret_cast<float*>(work_.scratch(0, norm_backward_blocks(s.tokens, s.hidden) * s.hidden * 4));
  with_float_type(x.dtype(), "rmsnorm", [&](auto type) {
    using T = decltype(type);
    cuda::norm_backward<T, false>(
        work_.stream,
        {elements<T>(dy, n, "dy"), elements<T>(x, n, "x"), elements<T>(weight, s.hidden, "weight"), inv_rms.data(),
         elements<T>(dx, n, "dx"), data_or_null(dweight), nullptr, parts, s.tokens, s.hidden, accumulate_dx});
  });
}

void CudaNormOps::layernorm_forward(LayerNormShape s, ConstView x, ConstView weight, ConstView bias, View y,
                                    Floats statistics) const {
  const Index n = s.tokens * s.hidden;
  if (!statistics.empty()) check_size(statistics.size(), 2 * s.tokens, "statistics");
  with_float_type(x.dtype(), "layernorm", [&](auto type) {
    using T = decltype(type);
    cuda::layernorm_forward<T>(
        work_.stream, {elements<T>(x, n, "x"), nullptr, nullptr, elements<T>(weight, s.hidden, "weight"),
                       elements<T>(bias, s.hidden, "bias"), nullptr, elements<T>(y, n, "y"), data_or_null(statistics),
                       s.tokens, s.hidden, s.eps});
  });
}

void CudaNormOps::add_layernorm_forward(LayerNormShape s, ConstView a, ConstView b, ConstView column_bias,
                                        ConstView weight, ConstView bias, View sum, View y, Floats statistics) const {
  const Index n = s.tokens * s.hidden;
  if (!statistics.empty()) check_size(statistics.size(), 2 * s.tokens, "statistics");
  with_float_type(a.dtype(), "add_layernorm", [&](auto type) {
    using T = decltype(type);
    cuda::layernorm_forward<T>(
        work_.stream,
        {elements<T>(a, n, "a"), elements<T>(b, n, "b"), elements_or_null<T>(column_bias, s.hidden, "column_bias"),
         elements<T>(weight, s.hidden, "weight"), elements<T>(bias, s.hidden, "bias"), elements<T>(sum, n, "sum"),
         elements<T>(y, n, "y"), data_or_null(statistics), s.tokens, s.hidden, s.eps});
  });
}

void CudaNormOps::layernorm_backward(LayerNormShape s, ConstView dy, ConstView x, ConstView weight,
                                     ConstFloats statistics, View dx, Floats dweight, Floats dbias,
                                     bool accumulate_dx) const {
  const Index n = s.tokens * s.hidden;
  check_size(statistics.size(), 2 * s.tokens, "statistics");
  LH_ASSERT(dweight.empty() == dbias.empty(), "both gradients or none");
  auto* parts = reinterpret_cast<float*>(work_.scratch(0, norm_backward_blocks(s.tokens, s.hidden) * 2 * s.hidden * 4));
  with_float_type(x.dtype(), "layernorm", [&](auto type) {
    using T = decltype(type);
    cuda::norm_backward<T, true>(
        work_.stream, {elements<T>(dy, n, "dy"), elements<T>(x, n, "x"), elements<T>(weight, s.hidden, "weight"),
                       statistics.data(), elements<T>(dx, n, "dx"), data_or_null(dweight), data_or_null(dbias), parts,
                       s.tokens, s.hidden, accumulate_dx});
  });
}

}  // namespace longhaul::cuda
