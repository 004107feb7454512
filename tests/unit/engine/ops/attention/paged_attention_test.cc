// Attention over pages: against the f64 reference, at the borders of pages and pieces; the bits of a sequence do not
// depend on what is around it; shared pages; what is no page.
#include "engine/ops/attention/paged_attention.h"

#include <cstring>

#include "tests/support/reference/generation_reference.h"
#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;
using reference::Ids;

namespace {

Values copy_of(const Values& v) {
  Values copy{Tensor(v.tensor.dtype(), v.tensor.shape()), v.exact};
  std::memcpy(copy.tensor.view().data(), v.tensor.view().data(), static_cast<std::size_t>(v.tensor.bytes()));
  return copy;
}

// Pages assigned at random to sequences of these lengths; the rest of the table is no page.
struct Batch {
  PagedShape shape;
  Ids table, lengths;
  Values keys, values, q;

  Batch(PagedShape s, Ids of_each, DType pool, DType type, std::uint64_t seed) : shape(s), lengths(std::move(of_each)) {
    shape.sequences = static_cast<Index>(lengths.size());
    Index used = 0, longest = 1;
    for (const Index length : lengths) {
      used += (length + shape.page_tokens - 1) / shape.page_tokens;
      longest = std::max(longest, length);
    }
    shape.pages = used + 2;
    shape.pages_each = (longest + shape.page_tokens - 1) / shape.page_tokens + 1;
    Ids free;
    for (Index page = 0; page < shape.pages; ++page) free.push_back(static_cast<std::int32_t>(page));
    PhiloxSequence draw(seed, 5);
    for (const Index length : lengths)
      for (Index b = 0; b < shape.pages_each; ++b) {
        if (b * shape.page_tokens >= length) {
          table.push_back(-1);
          continue;
        }
        const auto at = static_cast<std::size_t>(draw.next_below(free.size()));
        table.push_back(free[at]);
        free.erase(free.begin() + static_cast<Index>(at));
      }
    const Index pool_size = shape.pages * shape.page_tokens * shape.kv_heads * shape.head_dim;
    keys = random_values(pool, pool_size, seed + 1), values = random_values(pool, pool_size, seed + 2);
    q = random_values(type, shape.sequences * shape.tokens * shape.heads * shape.head_dim, seed + 3);
  }
  Batch(const Batch& other)
      : shape(other.shape),
        table(other.table),
        lengths(other.lengths),
        keys(copy_of(other.keys)),
        values(copy_of(other.values)),
        q(copy_of(other.q)) {}
  Vector want() const {
    const reference::PagedCase c{
        shape.sequences, shape.tokens,      shape.heads,      shape.kv_heads,
        shape.head_dim,  shape.page_tokens, shape.pages_each, 1.0 / std::sqrt(static_cast<double>(shape.head_dim)),
        shape.window};
    return reference::paged_attention(c, q.exact, keys.exact, values.exact, table, lengths);
  }
  Tensor run(const ComputeContext& context) const {
    Tensor out(q.tensor.dtype(), {q.tensor.size()});
    attention_decode_paged(context, shape, q, keys, values, table, lengths, out);
    return out;
  }
};

PagedShape shape_of(Index heads, Index kv_heads, Index head_dim, Index page_tokens, Index tokens = 1,
                    Index window = 0) {
  PagedShape s;
  s.window = window;
  s.heads = heads, s.kv_heads = kv_heads, s.head_dim = head_dim, s.page_tokens = page_tokens, s.tokens = tokens;
  return s;
}

bool same_bits(ConstView a, ConstView b) {
  return a.bytes() == b.bytes() && std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.bytes())) == 0;
}

// A sequence of a batch alone in a batch.
Batch alone(const Batch& batch, Index sequence) {
  Batch one = batch;
  one.shape.sequences = 1;
  const auto row = batch.table.begin() + sequence * batch.shape.pages_each;
  one.table.assign(row, row + batch.shape.pages_each);
  one.lengths = {batch.lengths[static_cast<std::size_t>(sequence)]};
  return one;
}

}  // namespace

TEST_CASE("one new token against pages, at the borders of pages and pieces") {
  const std::uint64_t seed = 71;
  struct Case {
    PagedShape shape;
    Ids lengths;
  };
  const Case cases[] = {
      {shape_of(6, 2, 20, 3), {1, 3, 4, 0, 131}},          // any shape
      {shape_of(2, 2, 64, 1), {1, 127, 128, 129}},         // a page for each token
      {shape_of(8, 2, 64, 16), {16, 17, 15, 300}},         // groups of four
      {shape_of(5, 1, 128, 7), {0, 7, 258}},               // of five: eight at a time
      {shape_of(9, 1, 128, 32), {33}},                     // of nine: eight and one
      {shape_of(4, 1, 24, 5), {5, 64}},                    // lanes without a pack
      {shape_of(2, 1, 256, 128), {128, 129}},              // f32: more than a warp's packs
      {shape_of(6, 2, 20, 3, 3), {3, 2, 7, 0, 130, 257}},  // several new tokens; one place with less
      {shape_of(4, 2, 64, 4, 4), {4, 129, 128, 131}},
      {shape_of(6, 2, 20, 3, 1, 2), {1, 3, 4, 0, 131}},           // a window: within a piece
      {shape_of(8, 2, 64, 16, 1, 140), {16, 17, 139, 140, 400}},  // over two or three pieces
      {shape_of(4, 2, 64, 4, 4, 128), {4, 131, 258, 259, 500}},   // tokens whose windows begin in different pieces
      {shape_of(6, 2, 20, 3, 3, 1), {3, 2, 0, 130}},              // each sees itself
  };
  for (const Case& c : cases)
    for (const DType pool : kTypes)
      for (const DType type : kTypes)
        for (const Backend& on : kBackends) {
          const OpContext context(2, on);
          const Batch batch(c.shape, c.lengths, pool, type, seed);
          check_close(case_text(format("heads={} dim={} page={} tokens={} pool={}", c.shape.heads, c.shape.head_dim,
                                       c.shape.page_tokens, c.shape.tokens, dtype_name(pool)),
                                type, on, seed),
                      batch.run(context), batch.want(), tolerance(type));
        }
}

TEST_CASE("a sequence has the same bits alone, with others, in other pages, and however many pieces there may be") {
  for (const Index head_dim : {64, 20})
    for (const Backend& on : kBackends) {
      const OpContext context(2, on);
      Batch batch(shape_of(4, 2, head_dim, 5), {9, 300, 0, 131}, DType::bf16, DType::f32, 81);
      const Tensor all = batch.run(context);
      const Index row = batch.shape.heads * head_dim;
      for (Index sequence = 0; sequence < 4; ++sequence) {
        Batch one = alone(batch, sequence);
        std::copy_n(batch.q.tensor.span<float>().data() + sequence * row, row, one.q.tensor.span<float>().data());
        const ConstView want(all.view().as<float>() + sequence * row, Shape{row});
        Tensor out(DType::f32, {row});
        attention_decode_paged(context, one.shape, one.q, one.keys, one.values, one.table, one.lengths, out);
        CHECK(same_bits(out, want));
        one.shape.longest = std::max<Index>(1, one.lengths.front());
        attention_decode_paged(context, one.shape, one.q, one.keys, one.values, one.table, one.lengths, out);
        CHECK(same_bits(out, want));
      }
      // The pool's pages one place further on.
      Batch moved = batch;
      const Index page = batch.shape.page_tokens * batch.shape.kv_heads * head_dim, pages = batch.shape.pages;
      for (const auto& [from, to] : {std::pair{&batch.keys, &moved.keys}, {&batch.values, &moved.values}})
        for (Index i = 0; i < pages * page; ++i)
          to->tensor.span<bf16>()[static_cast<std::size_t>((i + page) % (pages * page))] =
              from->tensor.span<bf16>()[static_cast<std::size_t>(i)];
      for (std::int32_t& entry : moved.table)
        if (entry >= 0) entry = static_cast<std::int32_t>((entry + 1) % pages);
      CHECK(same_bits(moved.run(context), all));
    }
}

TEST_CASE("what is appended is what attention reads: shared beginnings, empty places, rounding to the pool's type") {
  for (const DType pool : kTypes)
    for (const Backend& on : kBackends) {
      const OpContext context(2, on);
      // Two sequences share pages 4 and 1 (six tokens of three), a third place is empty, a fourth begins.
      PagedShape s = shape_of(4, 2, 20, 3, 2);
      s.sequences = 4, s.pages = 6, s.pages_each = 3;
      const Ids table = {4, 1, 2, 4, 1, 0, -1, -1, -1, 5, -1, -1}, lengths = {8, 7, 0, 1};
      const Index row = s.kv_heads * s.head_dim;
      Batch batch(shape_of(4, 2, 20, 3, 2), {8, 7, 0, 1}, pool, DType::f32, 91);
      batch.shape = s, batch.table = table;
      batch.keys = random_values(pool, s.pages * s.page_tokens * row, 92);
      batch.values = random_values(pool, s.pages * s.page_tokens * row, 93);
      const Values k = random_values(DType::f32, 4 * 2 * row, 94), v = random_values(DType::f32, 4 * 2 * row, 95);
      Vector want_k = batch.keys.exact, want_v = batch.values.exact;
      const auto put = [&](Index token, Index page, Index slot) {
        for (Index i = 0; i < row; ++i) {
          const auto from = static_cast<std::size_t>(token * row + i);
          const auto to = static_cast<std::size_t>((page * s.page_tokens + slot) * row + i);
          const auto stored = [&](double x) {
            return pool == DType::f32 ? x : static_cast<double>(static_cast<float>(bf16(static_cast<float>(x))));
          };
          want_k[to] = stored(k.exact[from]), want_v[to] = stored(v.exact[from]);
        }
      };
      // Position 6 of the second sequence is in its own page; position 5 is the last of the shared one.
      put(0, 2, 0), put(1, 2, 1), put(2, 1, 2), put(3, 0, 0), put(7, 5, 0);
      paged_append(context, s, k, v, table, lengths, batch.keys.tensor, batch.values.tensor);
      CHECK(exact_of(batch.keys.tensor) == want_k);
      CHECK(exact_of(batch.values.tensor) == want_v);
      batch.keys.exact = want_k, batch.values.exact = want_v;
      check_close(case_text("after append", pool, on, 91), batch.run(context), batch.want(), tolerance(DType::f32));
    }
}

TEST_CASE("a device gives NaN for keys in no page and for a length above the longest, and appends nothing there") {
  for (const Index head_dim : {64, 20})
    for (const Backend& on : kBackends) {
      if (!on.gpu) continue;  // the processor ends the process
      const OpContext context(1, on);
      Batch batch(shape_of(2, 2, head_dim, 4), {6, 6, 6}, DType::f32, DType::f32, 97);
      batch.table[1] = static_cast<std::int32_t>(batch.shape.pages);
      batch.lengths[1] = static_cast<std::int32_t>(batch.shape.pages_each * batch.shape.page_tokens + 1);
      const Vector out = exact_of(batch.run(context));
      const Index row = 2 * head_dim;
      for (Index i = 0; i < 3 * row; ++i) CHECK(std::isnan(out[static_cast<std::size_t>(i)]) == (i < 2 * row));
      const Vector before = batch.keys.exact;
      batch.lengths[2] = 0;
      const Values k = random_values(DType::f32, 3 * row, 98);
      paged_append(context, batch.shape, k, k, batch.table, batch.lengths, batch.keys.tensor, batch.values.tensor);
      CHECK(exact_of(batch.keys.tensor) == before);
    }
}
