#include "engine/ops/reference/generation_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace longhaul::reference {
namespace {

std::size_t at(Index i) {
  return static_cast<std::size_t>(i);
}

}  // namespace

Vector paged_attention(const PagedCase& c, const Vector& q, const Vector& keys, const Vector& values, const Ids& table,
                       const Ids& lengths) {
  const Index d = c.head_dim, group = c.heads / c.kv_heads;
  Vector out(q.size(), 0.0);
  for (Index row = 0; row < c.sequences * c.tokens * c.heads; ++row) {
    const Index head = row % c.heads, t = row / c.heads % c.tokens, sequence = row / c.heads / c.tokens;
    const Index seen = lengths[at(sequence)] - c.tokens + t + 1;
    const auto place = [&](Index key) {
      const Index page = table[at(sequence * c.pages_each + key / c.page_tokens)];
      return ((page * c.page_tokens + key % c.page_tokens) * c.kv_heads + head / group) * d;
    };
    Vector scores;
    double top = -std::numeric_limits<double>::infinity(), total = 0.0;
    for (Index key = 0; key < seen; ++key) {
      double score = 0.0;
      for (Index i = 0; i < d; ++i) score += q[at(row * d + i)] * keys[at(place(key) + i)];
      scores.push_back(score * c.scale);
      top = std::max(top, scores.back());
    }
    for (const double score : scores) total += std::exp(score - top);
    for (Index key = 0; key < seen; ++key)
      for (Index i = 0; i < d; ++i)
        out[at(row * d + i)] += std::exp(scores[at(key)] - top) / total * values[at(place(key) + i)];
  }
  return out;
}

}  // namespace longhaul::reference
