// Room engine/ops/cpu/experts
// Experts on processors: routing, dispatch to ranks, products of each expert's rows.
// The operations are declared in engine/ops/experts; moe_rows.h is shared by their loops here.
// It may use linear and simd of the same floor, and no model.
//
// What the router's operations do with one row of logits.
#pragma once

#include <algorithm>
#include <cmath>

#include "engine/ops/cpu/simd/kernels.h"

namespace longhaul::cpu {

// NaN is larger than everything else.
template <class T>
bool greater_or_nan(T a, T b) {
  return a > b || (std::isnan(a) && !std::isnan(b));
}

// The indices of the k largest of values[n], best first; of equal ones the lower index. k <= n.
template <class T>
void top_k_indices(const T* values, Index n, Index k, std::int32_t* out) {
  Index have = 0;
  for (Index i = 0; i < n; ++i) {
    Index place = have;
    while (place > 0 && greater_or_nan(values[i], values[out[place - 1]])) --place;
    if (place == k) continue;
    if (have < k) ++have;
    for (Index j = have - 1; j > place; --j) out[j] = out[j - 1];
    out[place] = static_cast<std::int32_t>(i);
  }
}

// p = softmax(z); returns logsumexp(z).
inline double softmax_row(const Kernels& kernels, const float* z, Index n, float* p) {
  const float top = *std::max_element(z, z + n);
  for (Index i = 0; i < n; ++i) p[i] = z[i] - top;
  kernels.exp_array(p, p, n);
  double total = 0.0;
  for (Index i = 0; i < n; ++i) total += static_cast<double>(p[i]);
  const auto factor = static_cast<float>(1.0 / total);
  for (Index i = 0; i < n; ++i) p[i] *= factor;
  return static_cast<double>(top) + std::log(total);
}

inline void sigmoid_row(const Kernels& kernels, const float* z, Index n, float* s) {
  for (Index i = 0; i < n; ++i) s[i] = -z[i];
  kernels.exp_array(s, s, n);
  for (Index i = 0; i < n; ++i) s[i] = 1.0F / (1.0F + s[i]);
}

inline constexpr float kSigmoidSumEps = 1e-20F;

}  // namespace longhaul::cpu
