// Helpers of the mixture-of-experts tests: random routers, values as spans, errors relative to the largest element.
#pragma once

#include "engine/ops/experts/moe_router.h"
#include "tests/support/reference/moe_reference.h"
#include "tests/unit/engine/ops/op_check.h"

namespace longhaul::moe_check {

using op_check::Index;
using op_check::Vector;

// A random f32 array with the same numbers in f64.
struct Floats {
  std::vector<float> f32;
  Vector exact;
};
inline Floats random_floats(Index n, std::uint64_t seed, double deviation = 1.0) {
  Floats v;
  const Philox philox{seed, 7};
  for (Index i = 0; i < n; ++i) {
    v.f32.push_back(static_cast<float>(deviation * philox.normal(static_cast<std::uint64_t>(i))));
    v.exact.push_back(static_cast<double>(v.f32.back()));
  }
  return v;
}
inline Vector exact(std::span<const float> v) {
  return Vector(v.begin(), v.end());
}

inline double largest(const Vector& v) {
  double top = 0.0;
  for (double value : v) top = std::max(top, std::abs(value));
  return top;
}

// max |got - want| / max |want|.
inline double error_of_largest(const Vector& got, const Vector& want) {
  if (got.size() != want.size()) return HUGE_VAL;
  double difference = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i])) return HUGE_VAL;
    difference = std::max(difference, std::abs(got[i] - want[i]));
  }
  return largest(want) == 0.0 ? difference : difference / largest(want);
}
inline void check_largest(const std::string& what, const Vector& got, const Vector& want, double limit) {
  const double error = error_of_largest(got, want);
  INFO(what, ": error ", error, " limit ", limit);
  CHECK(error <= limit);
}

// The same router for the operations and for the reference.
struct Router {
  RouterShape shape;
  bool with_bias = false;
  reference::MoeRouter exact() const {
    return {shape.experts,
            shape.top_k,
            static_cast<reference::MoeScore>(shape.score),
            static_cast<double>(shape.scaling),
            shape.groups,
            shape.groups_kept,
            shape.group_best};
  }
  std::string text() const {
    return format("router tokens={} experts={} top_k={} score={} scaling={} groups={}/{} best={} bias={}", shape.tokens,
                  shape.experts, shape.top_k, static_cast<int>(shape.score), shape.scaling, shape.groups_kept,
                  shape.groups, shape.group_best, with_bias);
  }
};

inline constexpr RouterScore kScores[] = {RouterScore::softmax_selected, RouterScore::softmax_all,
                                          RouterScore::sigmoid};

inline Router random_router(RouterScore score, Index top_k, std::uint64_t seed) {
  PhiloxSequence draw(seed, 5);
  const auto below = [&](std::uint64_t n) { return static_cast<Index>(draw.next_below(n)); };
  Router r;
  r.shape.tokens = 1 + below(150);
  r.shape.top_k = top_k;
  r.shape.score = score;
  r.shape.scaling = below(2) == 0 ? 1.0F : 2.5F;
  r.shape.experts = top_k + below(14);
  r.with_bias = below(2) == 0;
  if (below(3) == 0) {
    r.shape.groups = 2 + below(3);
    r.shape.experts = r.shape.groups * (2 + below(4));
    r.shape.groups_kept = 1 + below(static_cast<std::uint64_t>(r.shape.groups));
    while (r.shape.groups_kept * (r.shape.experts / r.shape.groups) < top_k) ++r.shape.groups_kept;
    r.shape.group_best = 1 + below(2);
    if (r.shape.groups_kept > r.shape.groups) r.shape.groups = r.shape.groups_kept = 1;
    if (r.shape.experts < top_k) r.shape.experts = top_k;
  }
  return r;
}

}  // namespace longhaul::moe_check
