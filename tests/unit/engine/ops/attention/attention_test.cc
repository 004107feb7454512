#include "engine/ops/attention/attention.h"

#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

namespace {

struct AttentionSizes {
  Index batch, seq, heads, kv_heads, head_dim, kv_seq;
  bool documents;
  Index window = 0;
};
const AttentionSizes kAttentionSizes[] = {
    {1, 1, 1, 1, 8, 1, false},          {2, 17, 4, 2, 24, 17, false},       {1, 64, 2, 1, 32, 64, false},
    {1, 131, 3, 3, 40, 131, false},     {2, 70, 4, 1, 16, 150, false},      {1, 150, 2, 2, 64, 150, true},
    {1, 5, 2, 1, 10, 200, true},        {2, 131, 4, 2, 64, 131, false},     {1, 70, 2, 1, 128, 150, true},
    {1, 131, 3, 3, 40, 131, false, 20}, {2, 150, 4, 2, 64, 150, false, 33}, {1, 150, 2, 2, 64, 150, true, 50},
    {1, 70, 2, 1, 128, 200, false, 90}, {1, 200, 2, 1, 64, 200, false, 2},  {2, 17, 4, 2, 24, 17, false, 1},
    {1, 200, 2, 1, 128, 210, true, 64}, {1, 3, 2, 1, 10, 200, false, 130},
};

reference::AttentionCase case_of(const AttentionSizes& z) {
  reference::AttentionCase c{
      z.batch, z.seq, z.heads, z.kv_heads, z.head_dim, z.kv_seq, 1.0 / std::sqrt(static_cast<double>(z.head_dim)), {}};
  c.window = z.window;
  if (!z.documents) return c;
  for (Index b = 0; b < z.batch; ++b) {  // a new document every 37 keys
    for (Index i = 0; i < z.seq; ++i)
      c.first_key.push_back(static_cast<std::int32_t>((z.kv_seq - z.seq + i) / 37 * 37));
  }
  return c;
}

}  // namespace

TEST_CASE(
    "attention forward and backward follow the reference on odd sizes, with grouped heads, past keys, documents, "
    "windows") {
  for (const AttentionSizes& z : kAttentionSizes) {
    for (DType dtype : kTypes) {
      for (const Backend& level : kBackends) {
        const OpContext context(2, level);
        const std::uint64_t seed = 900 + static_cast<std::uint64_t>(z.seq);
        const reference::AttentionCase c = case_of(z);
        const Index nq = z.batch * z.seq * z.heads * z.head_dim, nkv = z.batch * z.kv_seq * z.kv_heads * z.head_dim;
        const Values q = random_values(dtype, nq, seed, 1.5), k = random_values(dtype, nkv, seed + 1, 1.5);
        const Values v = random_values(dtype, nkv, seed + 2), dout = random_values(dtype, nq, seed + 3);
        Tensor out(dtype, {nq}), dq(dtype, {nq}), dk(dtype, {nkv}), dv(dtype, {nkv});
        std::vector<float> lse(static_cast<std::size_t>(z.batch * z.heads * z.seq));
        AttentionShape shape{
            .batch = z.batch, .seq = z.seq, .heads = z.heads, .kv_heads = z.kv_heads, .head_dim = z.head_dim};
        shape.kv_seq = z.kv_seq, shape.window = z.window;
        const std::string text = case_text(format("attention b={} s={} n={} nkv={} d={} kv={} w={}", z.batch, z.seq,
                                                  z.heads, z.kv_heads, z.head_dim, z.kv_seq, z.window),
                                           dtype, level, seed);
        const auto want = reference::attention(c, q.exact, k.exact, v.exact);
        attention_forward(context, shape, q, k, v, out, lse, c.first_key);
        check_close(text + " out", out, want.out, tolerance(dtype));
        check_close(text + " lse", ConstView(lse), want.lse, 5e-7);
        const auto g = reference::attention_backward(c, dout.exact, q.exact, k.exact, v.exact);
        attention_backward(context, shape, dout, q, k, v, out, lse, dq, dk, dv, c.first_key);
        if (z.kv_seq > 1 && z.window != 1) {  // with one key the softmax is constant and dq, dk are 0
          check_close(text + " dq", dq, g.dq, 2.0 * tolerance(dtype));
          check_close(text + " dk", dk, g.dk, 2.0 * tolerance(dtype));
        }
        check_close(text + " dv", dv, g.dv, tolerance(dtype));
      }
    }
  }
}

TEST_CASE("keys that no window reaches are not read; a window over all keys gives the bits of none") {
  for (const Index head_dim : {24, 64})
    for (const DType dtype : kTypes)
      for (const Backend& level : kBackends) {
        CAPTURE(case_text(format("window, d={}", head_dim), dtype, level, 3));
        const OpContext context(2, level);
        const Index seq = 70, past = 300, kv = seq + past, row = head_dim, window = 40;
        AttentionShape shape{.batch = 1, .seq = seq, .heads = 1, .kv_heads = 1, .head_dim = head_dim};
        shape.kv_seq = kv;
        const Values q = random_values(dtype, seq * row, 1), dout = random_values(dtype, seq * row, 2);
        Values k = random_values(dtype, kv * row, 3), v = random_values(dtype, kv * row, 4);
        const auto run = [&](Index looked_at) {
          shape.window = looked_at;
          Tensor out(dtype, {seq * row}), dq(dtype, {seq * row}), dk(dtype, {kv * row}), dv(dtype, {kv * row});
          std::vector<float> lse(static_cast<std::size_t>(seq));
          attention_forward(context, shape, q, k, v, out, lse);
          attention_backward(context, shape, dout, q, k, v, out, lse, dq, dk, dv);
          Vector all = exact_of(out.view());
          for (const Tensor* one : {&dq, &dk, &dv}) {
            const Vector more = exact_of(one->view());
            all.insert(all.end(), more.begin(), more.end());
          }
          return all;
        };
        CHECK(run(kv) == run(0));
        CHECK(run(kv - 1) != run(0));
        const Vector before = run(window);
        // The first query sees keys from 261 on; those of the tiles before are poisoned.
        for (Index i = 0; i < 192 * row; ++i)
          for (Values* x : {&k, &v}) {
            if (dtype == DType::f32)
              x->tensor.span<float>()[static_cast<std::size_t>(i)] = NAN;
            else
              x->tensor.span<bf16>()[static_cast<std::size_t>(i)] = bf16(NAN);
          }
        CHECK(run(window) == before);
      }
}

TEST_CASE("attention works on slices of a fused QKV and gives the same bits for 1 and 2 threads") {
  const Index seq = 100, heads = 4, kv = 2, d = 16, row = (heads + 2 * kv) * d;
  const ComputeContext one(1), two(2);
  const Values qkv = random_values(DType::f32, seq * row, 5), dout = random_values(DType::f32, seq * heads * d, 6);
  AttentionShape shape{.batch = 1, .seq = seq, .heads = heads, .kv_heads = kv, .head_dim = d};
  shape.q_stride = shape.kv_stride = row;
  const auto slice = [&](const float* p, Index from) { return ConstView(p + from, Shape{seq * row - from}); };
  const float* p = qkv.tensor.span<float>().data();
  std::vector<std::vector<float>> results;
  for (const ComputeContext* context : {&one, &two}) {
    std::vector<float> out(static_cast<std::size_t>(seq * heads * d)), gradient(static_cast<std::size_t>(seq * row));
    std::vector<float> lse(static_cast<std::size_t>(seq * heads));
    const auto target = [&](Index from) { return View(gradient.data() + from, Shape{seq * row - from}); };
    attention_forward(*context, shape, slice(p, 0), slice(p, heads * d), slice(p, (heads + kv) * d), out, lse);
    attention_backward(*context, shape, dout, slice(p, 0), slice(p, heads * d), slice(p, (heads + kv) * d),
                       ConstView(out), lse, target(0), target(heads * d), target((heads + kv) * d));
    out.insert(out.end(), gradient.begin(), gradient.end());
    results.push_back(out);
  }
  CHECK(results[0] == results[1]);
  Vector q, k, v;
  for (Index t = 0; t < seq; ++t) {
    const auto at = qkv.exact.begin() + t * row;
    q.insert(q.end(), at, at + heads * d);
    k.insert(k.end(), at + heads * d, at + (heads + kv) * d);
    v.insert(v.end(), at + (heads + kv) * d, at + row);
  }
  const reference::AttentionCase c{1, seq, heads, kv, d, seq, 0.25, {}};
  const Vector want = reference::attention(c, q, k, v).out;
  check_close("fused", ConstView(results[0].data(), Shape{seq * heads * d}), want, tolerance(DType::f32));
}

TEST_CASE("one new token against a cache equals the last row of full attention") {
  for (DType dtype : kTypes) {
    for (const Backend& level : kBackends) {
      const OpContext context(2, level);
      const Index heads = 6, kv = 2, d = 20;
      std::vector<Values> keys, values;
      std::vector<KvCacheView> caches;
      for (Index length : {1, 7, 530}) {
        keys.push_back(random_values(dtype, length * kv * d, 40 + static_cast<std::uint64_t>(length)));
        values.push_back(random_values(dtype, length * kv * d, 50 + static_cast<std::uint64_t>(length)));
      }
      const Index lengths[] = {1, 7, 530};
      for (std::size_t i = 0; i < 3; ++i) caches.push_back({keys[i], values[i], lengths[i]});
      const Values q = random_values(dtype, 3 * heads * d, 60);
      Tensor out(dtype, {3, heads, d});
      for (const Index window : {0, 1, 6, 300, 4096}) {
        attention_decode(context, {.heads = heads, .kv_heads = kv, .head_dim = d, .window = window}, q, caches, out);
        Vector want;
        for (std::size_t i = 0; i < 3; ++i) {
          const reference::AttentionCase c{1, 1, heads, kv, d, lengths[i], 1.0 / std::sqrt(20.0), {}, true, window};
          const Vector qi(q.exact.begin() + static_cast<Index>(i) * heads * d,
                          q.exact.begin() + static_cast<Index>(i + 1) * heads * d);
          const Vector row = reference::attention(c, qi, keys[i].exact, values[i].exact).out;
          want.insert(want.end(), row.begin(), row.end());
        }
        check_close(case_text(format("decode window={}", window), dtype, level, 60), out, want, tolerance(dtype));
      }
    }
  }
}
