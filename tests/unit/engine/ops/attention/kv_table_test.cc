// Generation over tables of caches, against the plain reference, on processors and on a GPU.
#include "engine/ops/attention/kv_table.h"

#include <cmath>

#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

namespace {

struct TableOfCaches {
  std::vector<Values> keys, values;
  std::vector<KvPlace> places;
  TableOfCaches(DType dtype, std::initializer_list<Index> lengths, Index row, std::uint64_t seed) {
    for (const Index length : lengths) {
      keys.push_back(random_values(dtype, length * row, seed++));
      values.push_back(random_values(dtype, length * row, seed++));
      places.push_back({static_cast<std::byte*>(keys.back().tensor.view().data()),
                        static_cast<std::byte*>(values.back().tensor.view().data()), length});
    }
  }
};

}  // namespace

TEST_CASE("new tokens against a table of caches equal the last rows of full attention, whatever the room asked for") {
  for (DType dtype : kTypes) {
    for (const Backend& on : kBackends) {
      const OpContext context(2, on);
      const Index heads = 6, kv = 2, d = 20, lengths[] = {1, 7, 530};
      TableOfCaches caches(dtype, {1, 7, 530}, kv * d, 40);
      const Values q = random_values(dtype, 3 * heads * d, 60);
      Tensor out(dtype, {3, heads, d}), roomy(dtype, {3, heads, d});
      for (const Index window : {0, 5, 300}) {
        const AttentionDecodeShape shape{.heads = heads, .kv_heads = kv, .head_dim = d, .window = window};
        attention_decode_table(context, shape, q, caches.places, 530, out);
        attention_decode_table(context, shape, q, caches.places, 2048, roomy);
        Vector want;
        for (std::size_t i = 0; i < 3; ++i) {
          const reference::AttentionCase c{1, 1, heads, kv, d, lengths[i], 1.0 / std::sqrt(20.0), {}, true, window};
          const auto at = q.exact.begin() + static_cast<Index>(i) * heads * d;
          const Vector row =
              reference::attention(c, Vector(at, at + heads * d), caches.keys[i].exact, caches.values[i].exact).out;
          want.insert(want.end(), row.begin(), row.end());
        }
        check_close(case_text(format("decode over a table, window={}", window), dtype, on, 60), out, want,
                    tolerance(dtype));
        CHECK(exact_of(out.view()) == exact_of(roomy.view()));
      }
    }
  }
}

TEST_CASE("rows of a fused qkv go to the places that the table names, and nothing else changes") {
  for (DType dtype : kTypes) {
    for (const Backend& on : kBackends) {
      CAPTURE(case_text("kv_append", dtype, on, 7));
      const OpContext context(1, on);
      const Index q_size = 12, kv_size = 5, width = q_size + 2 * kv_size;
      TableOfCaches caches(dtype, {3, 9}, kv_size, 7);
      const std::vector<std::int32_t> sequences{1, 0, 1, 1}, positions{4, 2, 5, 8};
      const Values qkv = random_values(dtype, 4 * width, 20);
      Tensor q(dtype, {4, q_size});
      kv_append(context, {4, q_size, kv_size}, qkv, sequences, positions, caches.places, q);
      std::vector<Vector> keys, values;
      for (std::size_t i = 0; i < 2; ++i)
        keys.push_back(caches.keys[i].exact), values.push_back(caches.values[i].exact);
      Vector queries;
      for (std::size_t t = 0; t < 4; ++t) {
        const auto row = qkv.exact.begin() + static_cast<Index>(t) * width;
        queries.insert(queries.end(), row, row + q_size);
        const auto of = static_cast<std::size_t>(sequences[t]);
        std::copy_n(row + q_size, kv_size, keys[of].begin() + positions[t] * kv_size);
        std::copy_n(row + q_size + kv_size, kv_size, values[of].begin() + positions[t] * kv_size);
      }
      CHECK(exact_of(q.view()) == queries);
      for (std::size_t i = 0; i < 2; ++i) {
        CHECK(exact_of(caches.keys[i].tensor.view()) == keys[i]);
        CHECK(exact_of(caches.values[i].tensor.view()) == values[i]);
      }
    }
  }
}

TEST_CASE("rows of an int8 table, each with its scale") {
  for (DType dtype : kTypes) {
    for (const Backend& on : kBackends) {
      const OpContext context(1, on);
      const Index in = 19, out = 11;
      Tensor q(DType::i8, {out, in}), rows(dtype, {3, in});
      std::vector<float> scales;
      PhiloxSequence draw(31);
      for (Index o = 0; o < out; ++o) {
        scales.push_back(static_cast<float>(0.01 + draw.next_uniform()));
        for (Index i = 0; i < in; ++i)
          q.span<std::int8_t>()[static_cast<std::size_t>(o * in + i)] =
              static_cast<std::int8_t>(static_cast<int>(draw.next_below(255)) - 127);
      }
      const std::vector<std::int32_t> ids{10, 0, 4};
      embedding_int8(context, {3, in, out}, ids, q, scales, rows);
      Vector want;
      for (const std::int32_t id : ids)
        for (Index i = 0; i < in; ++i)
          want.push_back(static_cast<double>(scales[static_cast<std::size_t>(id)]) *
                         q.span<std::int8_t>()[static_cast<std::size_t>(id * in + i)]);
      check_close(case_text("embedding_int8", dtype, on, 31), rows, want, tolerance(dtype));
    }
  }
}
