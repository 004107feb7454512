// Attention over a part of the keys, and parts put together again: what context parallelism is made of.
#include <limits>

#include "engine/ops/attention/attention.h"
#include "engine/ops/pointwise/elementwise.h"
#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

namespace {

struct PartSizes {
  Index batch, seq, heads, kv_heads, head_dim, kv_seq;
  Index document;  // a new one every so many keys; 0: one
};
const PartSizes kPartSizes[] = {{2, 17, 4, 2, 24, 17, 0},
                                {1, 64, 2, 1, 32, 128, 0},
                                {2, 70, 3, 3, 40, 35, 0},
                                {2, 70, 4, 1, 16, 70, 37},
                                {1, 130, 2, 2, 64, 130, 65}};
constexpr float kNothing = -std::numeric_limits<float>::infinity();

// Documents over [keys of the part | queries' own]: queries of a document that began in the part see its end.
reference::Ids first_keys(const PartSizes& z) {
  reference::Ids first;
  if (z.document == 0) return first;
  for (Index b = 0; b < z.batch; ++b)
    for (Index i = 0; i < z.seq; ++i)
      first.push_back(static_cast<std::int32_t>(std::min(z.kv_seq, (z.kv_seq / 2 + i) / z.document * z.document)));
  return first;
}

AttentionShape part_shape(const PartSizes& z) {
  AttentionShape shape{
      .batch = z.batch, .seq = z.seq, .heads = z.heads, .kv_heads = z.kv_heads, .head_dim = z.head_dim};
  shape.kv_seq = z.kv_seq, shape.causal = false;
  return shape;
}

}  // namespace

TEST_CASE("attention to keys wholly before the queries follows the reference; a query may see none of them") {
  for (const PartSizes& z : kPartSizes) {
    for (DType dtype : kTypes) {
      for (CpuLevel level : kLevels) {
        const ComputeContext context(2, level);
        const std::uint64_t seed = 300 + static_cast<std::uint64_t>(z.seq);
        reference::AttentionCase c{z.batch,
                                   z.seq,
                                   z.heads,
                                   z.kv_heads,
                                   z.head_dim,
                                   z.kv_seq,
                                   1.0 / std::sqrt(static_cast<double>(z.head_dim)),
                                   first_keys(z),
                                   false};
        const Index nq = z.batch * z.seq * z.heads * z.head_dim, nkv = z.batch * z.kv_seq * z.kv_heads * z.head_dim;
        const Values q = random_values(dtype, nq, seed, 1.5), k = random_values(dtype, nkv, seed + 1, 1.5);
        const Values v = random_values(dtype, nkv, seed + 2), dout = random_values(dtype, nq, seed + 3);
        Tensor out(dtype, {nq}), dq(dtype, {nq}), dk(dtype, {nkv}), dv(dtype, {nkv});
        std::vector<float> lse(static_cast<std::size_t>(z.batch * z.heads * z.seq));
        const std::string text = case_text(format("part s={} kv={}", z.seq, z.kv_seq), dtype, level, seed);
        attention_forward(context, part_shape(z), q, k, v, out, lse, c.first_key);
        const auto want = reference::attention(c, q.exact, k.exact, v.exact);
        check_close(text + " out", out, want.out, tolerance(dtype));
        Index unseen = 0;
        for (std::size_t i = 0; i < lse.size(); ++i) {
          INFO(text, " lse ", i);
          if (std::isinf(want.lse[i])) {
            CHECK(lse[i] == kNothing);
            ++unseen;
          } else {
            CHECK(std::abs(static_cast<double>(lse[i]) - want.lse[i]) <= 2e-5 * (1.0 + std::abs(want.lse[i])));
          }
        }
        CHECK((unseen > 0) == (z.document > 0));
        attention_backward(context, part_shape(z), dout, q, k, v, out, lse, dq, dk, dv, c.first_key);
        const auto g = reference::attention_backward(c, dout.exact, q.exact, k.exact, v.exact);
        check_close(text + " dq", dq, g.dq, 2.0 * tolerance(dtype));
        check_close(text + " dk", dk, g.dk, 2.0 * tolerance(dtype));
        check_close(text + " dv", dv, g.dv, tolerance(dtype));
      }
    }
  }
}

TEST_CASE("two sets of keys, merged, are attention over both: out, lse and every gradient") {
  const Index batch = 2, seq = 70, heads = 4, kv_heads = 2, d = 16, kv = 2 * seq, row = kv_heads * d;
  for (const bool documents : {false, true}) {
    for (DType dtype : kTypes) {
      for (const Backend& level : kBackends) {
        if (level.level != CpuLevel::portable && level.level != CpuLevel::best) continue;
        const OpContext context(2, level);
        const std::uint64_t seed = 77;
        reference::AttentionCase c{batch, seq, heads, kv_heads, d, kv, 0.25, {}};
        reference::Ids in_past, in_own;  // the same first keys, as places in the first half and in the second
        for (Index i = 0; documents && i < batch * seq; ++i) {
          const Index first = (seq + i % seq) / 50 * 50;
          c.first_key.push_back(static_cast<std::int32_t>(first));
          in_past.push_back(static_cast<std::int32_t>(std::min(first, seq)));
          in_own.push_back(static_cast<std::int32_t>(std::max<Index>(first - seq, 0)));
        }
        const Index nq = batch * seq * heads * d, nkv = batch * kv * row;
        const Values q = random_values(dtype, nq, seed), k = random_values(dtype, nkv, seed + 1);
        const Values v = random_values(dtype, nkv, seed + 2), dout = random_values(dtype, nq, seed + 3);
        const auto want = reference::attention(c, q.exact, k.exact, v.exact);
        const std::string text = case_text(documents ? "merge, documents" : "merge", dtype, level, seed);
        AttentionShape shape{.batch = batch, .seq = seq, .heads = heads, .kv_heads = kv_heads, .head_dim = d};
        shape.kv_seq = seq, shape.kv_batch_stride = kv * row;
        const auto half = [&](ConstView x, Index begin) {
          const auto* bytes = static_cast<const std::byte*>(x.data()) + begin * row * dtype_bytes(dtype);
          return ConstView(bytes, dtype, Shape{nkv - begin * row});
        };
        const auto half_of = [&](View x, Index begin) {
          return View(static_cast<std::byte*>(x.data()) + begin * row * dtype_bytes(dtype), dtype,
                      Shape{nkv - begin * row});
        };
        std::vector<float> out(static_cast<std::size_t>(nq), NAN), lse(static_cast<std::size_t>(batch * heads * seq));
        std::fill(lse.begin(), lse.end(), kNothing);
        std::vector<float> part_lse(lse.size());
        Tensor part(dtype, {nq});
        for (const bool own : {true, false}) {
          shape.causal = own;
          attention_forward(context, shape, q, half(k, own ? seq : 0), half(v, own ? seq : 0), part, part_lse,
                            own ? in_own : in_past);
          attention_merge(context, {batch, seq, heads, d}, part, part_lse, out, lse);
        }
        check_close(text + " out", ConstView(out), want.out, tolerance(dtype));
        check_close(text + " lse", ConstView(lse), want.lse, 5e-7);
        // Rounded to the type in which a model keeps it.
        Tensor kept(dtype, {nq});
        cast(context, ConstView(out), kept);
        Tensor dk(dtype, {nkv}), dv(dtype, {nkv}), dq_own(dtype, {nq}), dq_past(dtype, {nq});
        for (const bool own : {true, false}) {
          shape.causal = own;
          const Index at = own ? seq : 0;
          attention_backward(context, shape, dout, q, half(k, at), half(v, at), kept, lse, own ? dq_own : dq_past,
                             half_of(dk, at), half_of(dv, at), own ? in_own : in_past);
        }
        const auto g = reference::attention_backward(c, dout.exact, q.exact, k.exact, v.exact);
        Vector dq = exact_of(dq_own);
        const Vector past = exact_of(dq_past);
        for (std::size_t i = 0; i < dq.size(); ++i) dq[i] += past[i];
        CHECK(normalised_error(dq, g.dq) <= 2.0 * tolerance(dtype));
        check_close(text + " dk", dk, g.dk, 2.0 * tolerance(dtype));
        check_close(text + " dv", dv, g.dv, tolerance(dtype));
      }
    }
  }
}

TEST_CASE("merging with a part that saw nothing changes no bit") {
  for (const Backend& level : kBackends) {
    const OpContext context(1, level);
    std::vector<float> out = {1.5F, -2.0F, 3.0F, 0.1F}, lse = {0.3F, -1.7F};
    const std::vector<float> before = out, lse_before = lse, part = {9, 9, 9, 9}, nothing = {kNothing, kNothing};
    attention_merge(context, {1, 2, 1, 2}, part, nothing, out, lse);
    CHECK(out == before);
    CHECK(lse == lse_before);
    lse = nothing;
    attention_merge(context, {1, 2, 1, 2}, part, lse_before, out, lse);
    CHECK(out == part);
    CHECK(lse == lse_before);
  }
}
