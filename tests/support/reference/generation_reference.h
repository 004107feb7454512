// The operations of generation in f64, as loops that read like the formula: paged attention, weights of few bits.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/reference/reference.h"

namespace longhaul::reference {

struct PagedCase {
  Index sequences = 1, tokens = 1, heads = 1, kv_heads = 1, head_dim = 1, page_tokens = 1, pages_each = 1;
  double scale = 1.0;
  Index window = 0;
};
// As engine/ops/attention/paged_attention.h has it; keys, values [pages, page_tokens, kv_heads, head_dim].
Vector paged_attention(const PagedCase& c, const Vector& q, const Vector& keys, const Vector& values, const Ids& table,
                       const Ids& lengths);

// What codes stand for (engine/ops/linear/weight_only.h): [out, in]. zeros may be empty.
Vector fp8_weight(Index out, Index in, const std::vector<std::uint8_t>& codes, const std::vector<float>& scales);
Vector int4_weight(Index out, Index in, Index group, const std::vector<std::uint8_t>& packed, const Vector& scales,
                   const std::vector<std::uint8_t>& zeros);

}  // namespace longhaul::reference
