// Which attention a GPU takes, and what that must not change.
#ifndef __SANITIZE_ADDRESS__
#include <cstring>

#include "engine/ops/attention/attention.h"
#include "engine/ops/cuda/attention/tensor_attention_kernels.h"
#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

TEST_CASE("the tensor cores take heads of 64 and 128 whose rows begin at multiples of 16 bytes") {
  alignas(16) static bf16 memory[64];
  cuda::AttentionForward<bf16> p{};
  p.sizes.head_dim = 64;
  p.sizes.q_stride = p.sizes.kv_stride = p.sizes.out_stride = 128, p.sizes.kv_batch_stride = 1280;
  p.q = p.k = p.v = memory, p.out = memory;
  CHECK(cuda::tensor_attention_knows(p));
  for (const Index head_dim : {32, 80, 96, 256}) {
    p.sizes.head_dim = head_dim;
    CHECK_FALSE(cuda::tensor_attention_knows(p));
  }
  p.sizes.head_dim = 128;
  CHECK(cuda::tensor_attention_knows(p));
  p.k = memory + 4;
  CHECK_FALSE(cuda::tensor_attention_knows(p));
  p.k = memory, p.sizes.kv_stride = 132;
  CHECK_FALSE(cuda::tensor_attention_knows(p));
}

TEST_CASE("attention by the tensor cores gives the same bits in every order of its blocks, on slices of a fused QKV") {
  const Index seq = 150, heads = 4, kv = 2, d = 64, row = (heads + 2 * kv) * d;
  const Values qkv = random_values(DType::bf16, seq * row, 5), dout = random_values(DType::bf16, seq * heads * d, 6);
  AttentionShape shape{.batch = 1, .seq = seq, .heads = heads, .kv_heads = kv, .head_dim = d};
  shape.q_stride = shape.kv_stride = row;
  std::vector<std::vector<bf16>> results;
  const OpContext gpu(1, {CpuLevel::best, true});  // the emulation goes on drawing its orders
  for (int run = 0; run < 2; ++run) {
    Tensor out(DType::bf16, {seq * heads * d}), gradient(DType::bf16, {seq * row});
    std::vector<float> lse(static_cast<std::size_t>(seq * heads));
    const auto from = [&](Index at) { return ConstView(qkv.tensor.view().as<bf16>() + at, Shape{seq * row - at}); };
    const auto to = [&](Index at) { return View(gradient.view().as<bf16>() + at, Shape{seq * row - at}); };
    attention_forward(gpu, shape, from(0), from(heads * d), from((heads + kv) * d), out, lse);
    attention_backward(gpu, shape, dout, from(0), from(heads * d), from((heads + kv) * d), out, lse, to(0),
                       to(heads * d), to((heads + kv) * d));
    const std::span<bf16> a = out.span<bf16>(), b = gradient.span<bf16>();
    results.emplace_back(a.begin(), a.end());
    results.back().insert(results.back().end(), b.begin(), b.end());
  }
  CHECK(std::memcmp(results[0].data(), results[1].data(), results[0].size() * sizeof(bf16)) == 0);

  Vector q, k, v;
  for (Index t = 0; t < seq; ++t) {
    const auto at = qkv.exact.begin() + t * row;
    q.insert(q.end(), at, at + heads * d);
    k.insert(k.end(), at + heads * d, at + (heads + kv) * d);
    v.insert(v.end(), at + (heads + kv) * d, at + row);
  }
  const reference::AttentionCase c{1, seq, heads, kv, d, seq, 0.125, {}};
  const auto g = reference::attention_backward(c, dout.exact, q, k, v);
  Vector got_dk, got_dq;
  for (Index t = 0; t < seq; ++t)
    for (Index i = 0; i < (heads + kv) * d; ++i)
      (i < heads * d ? got_dq : got_dk)
          .push_back(static_cast<double>(
              static_cast<float>(results[0][static_cast<std::size_t>(seq * heads * d + t * row + i)])));
  const auto worst = [](const Vector& got, const Vector& want) {
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < want.size(); ++i)
      difference = std::max(difference, std::abs(got[i] - want[i])), size = std::max(size, std::abs(want[i]));
    return difference / size;
  };
  CHECK(worst(got_dq, g.dq) < 2 * tolerance(DType::bf16));
  CHECK(worst(got_dk, g.dk) < 2 * tolerance(DType::bf16));
}
#endif
