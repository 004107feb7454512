#include "tests/support/reference/generation_reference.h"

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
    const Index first = c.window > 0 ? std::max<Index>(0, seen - c.window) : 0;
    Vector scores;
    double top = -std::numeric_limits<double>::infinity(), total = 0.0;
    for (Index key = first; key < seen; ++key) {
      double score = 0.0;
      for (Index i = 0; i < d; ++i) score += q[at(row * d + i)] * keys[at(place(key) + i)];
      scores.push_back(score * c.scale);
      top = std::max(top, scores.back());
    }
    for (const double score : scores) total += std::exp(score - top);
    for (Index key = first; key < seen; ++key)
      for (Index i = 0; i < d; ++i)
        out[at(row * d + i)] += std::exp(scores[at(key - first)] - top) / total * values[at(place(key) + i)];
  }
  return out;
}

Vector fp8_weight(Index out, Index in, const std::vector<std::uint8_t>& codes, const std::vector<float>& scales) {
  Vector weight;
  for (Index i = 0; i < out * in; ++i) {
    const int code = codes[at(i)], exponent = code >> 3 & 15, mantissa = code & 7;
    const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    weight.push_back((code & 0x80 ? -magnitude : magnitude) * static_cast<double>(scales[at(i / in)]));
  }
  return weight;
}

Vector int4_weight(Index out, Index in, Index group, const std::vector<std::uint8_t>& packed, const Vector& scales,
                   const std::vector<std::uint8_t>& zeros) {
  const Index words = (in + 7) / 8, groups = (in + group - 1) / group;
  Vector weight;
  for (Index o = 0; o < out; ++o)
    for (Index i = 0; i < in; ++i) {
      // A word of 32 bits has eight codes, the first one lowest.
      const Index byte = (o * words + i / 8) * 4 + i % 8 / 2, g = o * groups + i / group;
      const int code = packed[at(byte)] / (i % 2 == 0 ? 1 : 16) % 16;
      weight.push_back((code - (zeros.empty() ? 8 : zeros[at(g)])) * scales[at(g)]);
    }
  return weight;
}

}  // namespace longhaul::reference
