#include "tests/gpu/bench/bench_decode.h"

#include <algorithm>
#include <numeric>

#include "base/digest/philox.h"
#include "base/text/text.h"
#include "engine/ops/attention/paged_attention.h"
#include "engine/ops/linear/gemv.h"
#include "engine/ops/linear/weight_only.h"
#include "engine/ops/loss/sample.h"

namespace longhaul::gpu_bench {
namespace {

constexpr double bf16_bar = 0.75;  // of the copy's bandwidth, for what is read in bf16
constexpr std::int64_t hidden = 4096, ffn = 14336, heads = 32, kv_heads = 8, head_dim = 128, vocab = 128256;
// More than what caches hold: calls take turns over as many copies of a weight.
constexpr std::int64_t bytes_apart = std::int64_t{1} << 28;

// Copies of a weight's bytes, each call another one. The bytes are those of filled(): no code is NaN.
class Copies {
 public:
  Copies(Bench& bench, std::int64_t bytes)
      : bytes_((bytes + 15) / 16 * 16), count_(std::max<std::int64_t>(1, bytes_apart / bytes_)) {
    memory_ = bench.filled(DType::f32, bytes_ * count_ / 4);
  }
  ConstView next(DType dtype, std::int64_t size) {
    turn_ = (turn_ + 1) % count_;
    return ConstView(static_cast<const std::byte*>(memory_.view().data()) + turn_ * bytes_, dtype, Shape{size});
  }

 private:
  std::int64_t bytes_, count_, turn_ = 0;
  Tensor memory_;
};

void products(Bench& bench, const char* name, std::int64_t tokens, std::int64_t in, std::int64_t out) {
  const ComputeContext& c = bench.context();
  const LinearShape shape{tokens, in, out};
  const std::int64_t n = in * out, groups = int4_groups(in, 128);
  Tensor x = bench.filled(DType::bf16, tokens * in), y = bench.tensor(DType::bf16, tokens * out);
  Tensor scales = bench.filled(DType::f32, out), group_scales = bench.filled(DType::bf16, out * groups);
  const double activations = 2.0 * static_cast<double>(tokens * (in + out)), rows = static_cast<double>(out);
  const double weights = static_cast<double>(n);
  const auto title = [&](const char* type) { return format("decode {}, {} tokens, {}", name, tokens, type); };
  {
    Copies w(bench, 2 * n);
    bench.measure(title("bf16"), 2 * weights + activations, 0, bf16_bar,
                  [&] { gemv(c, shape, x, w.next(DType::bf16, n), y); });
  }
  Copies w(bench, n);
  bench.measure(title("int8"), weights + 4 * rows + activations, 0, 0,
                [&] { linear_forward_int8(c, shape, x, w.next(DType::i8, n), scales.span<float>(), y); });
  bench.measure(title("fp8"), weights + 4 * rows + activations, 0, 0,
                [&] { linear_forward_fp8(c, shape, x, w.next(DType::u8, n), scales.span<float>(), y); });
  Copies packed(bench, out * int4_row_bytes(in));
  bench.measure(title("int4"), weights / 2 + 2 * rows * static_cast<double>(groups) + activations, 0, 0, [&] {
    linear_forward_int4(c, shape, x, {packed.next(DType::u8, out * int4_row_bytes(in)), group_scales, {}, 128}, y);
  });
}

Tensor on_device(Bench& bench, const std::vector<std::int32_t>& values) {
  Tensor made = bench.tensor(DType::i32, static_cast<std::int64_t>(values.size()));
  bench.gpu().device().copy_in(values.data(), made.view().data(), made.bytes());
  return made;
}

// Pages in any order, as they are after some hours.
void paged(Bench& bench, std::int64_t sequences, std::int64_t length) {
  PagedShape s;
  s.sequences = sequences, s.heads = heads, s.kv_heads = kv_heads, s.head_dim = head_dim;
  s.page_tokens = 16, s.pages_each = length / s.page_tokens, s.pages = sequences * s.pages_each;
  std::vector<std::int32_t> order(static_cast<std::size_t>(s.pages));
  std::iota(order.begin(), order.end(), 0);
  PhiloxSequence draw(1);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw.next_below(i)]);
  const Tensor table = on_device(bench, order);
  const Tensor lengths = on_device(
      bench, std::vector<std::int32_t>(static_cast<std::size_t>(sequences), static_cast<std::int32_t>(length)));
  const std::int64_t pool = s.pages * s.page_tokens * kv_heads * head_dim, row = sequences * heads * head_dim;
  Tensor keys = bench.filled(DType::bf16, pool), values = bench.filled(DType::bf16, pool);
  Tensor q = bench.filled(DType::bf16, row), out = bench.tensor(DType::bf16, row);
  bench.measure(format("paged attention, {} sequences of {} tokens", sequences, length),
                2.0 * 2.0 * static_cast<double>(pool + row), 0, bf16_bar, [&] {
                  attention_decode_paged(bench.context(), s, q, keys, values, table.span<std::int32_t>(),
                                         lengths.span<std::int32_t>(), out);
                });
}

void sampling(Bench& bench, std::int64_t sequences) {
  const std::int64_t n = sequences * vocab;
  Tensor logits = bench.tensor(DType::f32, n);
  std::vector<float> values(static_cast<std::size_t>(n));
  const Philox philox{1, 2};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(3 * philox.normal(i));
  bench.gpu().device().copy_in(values.data(), logits.view().data(), logits.bytes());
  std::vector<SampleRow> rows(static_cast<std::size_t>(sequences));
  for (std::size_t s = 0; s < rows.size(); ++s) rows[s].top_p = 0.95, rows[s].top_k = 50, rows[s].seed = s;
  const auto bytes = static_cast<std::int64_t>(rows.size() * sizeof(SampleRow));
  DeviceMemory there(bench.gpu().device(), bytes);
  bench.gpu().device().copy_in(rows.data(), there.data(), bytes);
  const std::span<SampleRow> on_gpu(reinterpret_cast<SampleRow*>(there.data()), rows.size());
  Tensor tokens = bench.tensor(DType::i32, sequences);
  bench.measure(format("sampling, top-k and top-p, {} sequences of {} logits", sequences, vocab),
                4.0 * static_cast<double>(n), 0, 0,
                [&] { sample_tokens(bench.context(), {sequences, vocab}, logits, on_gpu, {}, tokens.span<int>()); });
}

}  // namespace

void decode(Bench& bench) {
  for (const std::int64_t tokens : {1, 8}) {
    products(bench, "qkv", tokens, hidden, (heads + 2 * kv_heads) * head_dim);
    products(bench, "output", tokens, hidden, hidden);
    products(bench, "gate and up", tokens, hidden, 2 * ffn);
    products(bench, "down", tokens, ffn, hidden);
    products(bench, "head", tokens, hidden, vocab);
  }
  paged(bench, 1, 32768);
  paged(bench, 16, 4096);
  paged(bench, 4, 32768);
  for (const std::int64_t sequences : {1, 64}) sampling(bench, sequences);
}

}  // namespace longhaul::gpu_bench
