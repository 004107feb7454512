// A GEMM with everything filled in that decides which code runs: the key of the primitive cache.
#pragma once

#include <compare>

#include "engine/ops/linear/gemm.h"

namespace longhaul::cpu {

struct GemmCase {
  std::int64_t m, n, k, row_stride_a, row_stride_b, row_stride_c;
  bool transpose_a, transpose_b;
  float alpha, beta;
  DType ab, c;
  bool bias;
  auto operator<=>(const GemmCase&) const = default;
};

inline GemmCase gemm_case(const GemmShape& s, DType ab, DType c, bool bias = false) {
  const auto stride = [](std::int64_t given, std::int64_t tight) { return given == 0 ? tight : given; };
  return {s.m,
          s.n,
          s.k,
          stride(s.row_stride_a, s.transpose_a ? s.m : s.k),
          stride(s.row_stride_b, s.transpose_b ? s.k : s.n),
          stride(s.row_stride_c, s.n),
          s.transpose_a,
          s.transpose_b,
          s.alpha,
          s.beta,
          ab,
          c,
          bias};
}

}  // namespace longhaul::cpu
