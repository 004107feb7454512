// What the operations reach on this machine's GPU, beside its measured copy bandwidth and its measured product of large
// matrices. Prints a table; --json FILE also writes it, --only BLOCK leaves the others out. Ends with 77 and the reason
// where there is no GPU, with 1 when a bar is missed.
#include <algorithm>
#include <cstdio>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/text/text.h"
#include "engine/core/tensor/transfer.h"
#include "engine/ops/attention/attention.h"
#include "engine/ops/attention/rope.h"
#include "engine/ops/linear/gemm.h"
#include "engine/ops/linear/quantize_blocks.h"
#include "engine/ops/loss/cross_entropy.h"
#include "engine/ops/pointwise/adamw.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/ops/pointwise/rmsnorm.h"
#include "engine/ops/pointwise/swiglu.h"
#include "tests/gpu/bench/bench.h"
#include "tests/gpu/bench/bench_attention.h"
#include "tests/gpu/bench/bench_decode.h"
#include "tests/gpu/bench/bench_experts.h"
#include "tests/gpu/bench/bench_generation.h"
#include "tests/gpu/bench/bench_products.h"
#include "tests/gpu/real_gpu.h"

using namespace longhaul;
using namespace longhaul::gpu_bench;

namespace {

// Of a block of Llama-2 7B and a micro-batch of 4,096 tokens.
constexpr std::int64_t tokens = 4096, hidden = 4096, ffn = 11008, heads = 32, head_dim = 128, vocab = 32000;

void memory_bound(Bench& bench) {
  const ComputeContext& c = bench.context();
  const double rows = 2.0 * tokens * hidden, wide = 2.0 * tokens * ffn;  // bytes of one tensor in bf16
  Tensor x = bench.filled(DType::bf16, tokens * hidden), y = bench.filled(DType::bf16, tokens * hidden);
  Tensor z = bench.filled(DType::bf16, tokens * hidden), w = bench.filled(DType::bf16, hidden);
  Tensor inverse = bench.filled(DType::f32, tokens), dw = bench.filled(DType::f32, hidden);
  const RmsNormShape norm{tokens, hidden};
  bench.measure("add", 3 * rows, 0, memory_bar, [&] { add(c, x, y, z); });
  bench.measure("rmsnorm forward", 2 * rows, 0, memory_bar,
                [&] { rmsnorm_forward(c, norm, x, w, y, inverse.span<float>()); });
  bench.measure("add + rmsnorm forward", 4 * rows, 0, memory_bar,
                [&] { add_rmsnorm_forward(c, norm, x, y, w, x, z, inverse.span<float>()); });
  bench.measure("rmsnorm backward", 3 * rows, 0, memory_bar,
                [&] { rmsnorm_backward(c, norm, x, y, w, inverse.span<float>(), z, dw.span<float>()); });
  const RopeTable table = make_rope_table(tokens, head_dim, 10000.0F);
  bench.measure("rope", 2 * rows, 0, memory_bar,
                [&] { rope_apply(c, {.tokens = tokens, .heads = heads, .head_dim = head_dim}, table, {}, tokens, x); });
  Tensor gate = bench.filled(DType::bf16, tokens * ffn), up = bench.filled(DType::bf16, tokens * ffn);
  Tensor out = bench.filled(DType::bf16, tokens * ffn), dgate = bench.filled(DType::bf16, tokens * ffn);
  Tensor dup = bench.filled(DType::bf16, tokens * ffn);
  const SwiGluShape swiglu{.tokens = tokens, .ffn = ffn};
  bench.measure("swiglu forward", 3 * wide, 0, memory_bar, [&] { swiglu_forward(c, swiglu, gate, up, out); });
  bench.measure("swiglu backward", 5 * wide, 0, memory_bar,
                [&] { swiglu_backward(c, swiglu, out, gate, up, dgate, dup); });
  bench.measure("quantise, blocks of 32", 2 * wide, 0, memory_bar,
                [&] { quantize_blocks(c, tokens, ffn, {NumberFormat::e4m3, 1, 32}, gate, out); });
  Tensor logits = bench.filled(DType::bf16, tokens * vocab), loss = bench.tensor(DType::f32, tokens);
  Tensor targets = bench.tensor(DType::i32, tokens), weights = bench.filled(DType::f32, tokens);
  copy_in(c, std::span<const std::int32_t>(std::vector<std::int32_t>(tokens, 7)), targets);
  const std::span<const std::int32_t> ids(targets.view().as<std::int32_t>(), static_cast<std::size_t>(tokens));
  bench.measure("cross-entropy, loss and gradient", 2 * 2.0 * tokens * vocab, 0, memory_bar, [&] {
    cross_entropy_forward_backward(c, {.tokens = tokens, .vocab = vocab}, logits, ids, weights.span<float>(),
                                   loss.span<float>(), logits);
  });
  const std::int64_t n = std::int64_t{1} << 28;
  Tensor master = bench.filled(DType::f32, n), m = bench.filled(DType::f32, n), v = bench.filled(DType::f32, n);
  Tensor grad = bench.filled(DType::f32, n), copy = bench.tensor(DType::bf16, n);
  bench.measure("adamw, f32 moments, bf16 copy", static_cast<double>(n) * (7 * 4 + 2), 0, memory_bar,
                [&] { adamw_update(c, {}, master.span<float>(), m, v, grad.span<float>(), copy); });
  bench.measure("norm of a gradient", 4.0 * static_cast<double>(n), 0, memory_bar,
                [&] { (void)sum_of_squares(c, grad.span<float>()); });
}

void products(Bench& bench) {
  const ComputeContext& c = bench.context();
  struct Matrix {
    const char* name;
    std::int64_t in, out;
  };
  for (const Matrix& matrix : {Matrix{"qkv", hidden, 3 * hidden},
                               {"output", hidden, hidden},
                               {"up", hidden, 2 * ffn},
                               {"down", ffn, hidden},
                               {"head", hidden, vocab}}) {
    const LinearShape shape{tokens, matrix.in, matrix.out};
    Tensor x = bench.filled(DType::bf16, tokens * matrix.in), y = bench.filled(DType::bf16, tokens * matrix.out);
    Tensor w = bench.filled(DType::bf16, matrix.in * matrix.out), dw = bench.tensor(DType::f32, matrix.in * matrix.out);
    const double flops = gemm_flops(tokens, static_cast<double>(matrix.out), static_cast<double>(matrix.in));
    bench.measure(format("{} forward", matrix.name), 0, flops, 0, [&] { linear_forward(c, shape, x, w, y); });
    bench.measure(format("{} input gradient", matrix.name), 0, flops, 0,
                  [&] { linear_backward_input(c, shape, y, w, x); });
    bench.measure(format("{} weight gradient, f32 sums", matrix.name), 0, flops, 0,
                  [&] { linear_backward_weight(c, shape, y, x, dw, {}, true); });
  }
}

void attentions(Bench& bench) {
  const ComputeContext& c = bench.context();
  for (const auto& [kv_heads, dim, type] :
       {std::tuple{32, 128, DType::bf16}, {8, 128, DType::bf16}, {32, 64, DType::bf16}, {32, 128, DType::f32}}) {
    const std::int64_t q = tokens * heads * dim, kv = tokens * kv_heads * dim;
    Tensor query = bench.filled(type, q), key = bench.filled(type, kv), value = bench.filled(type, kv);
    Tensor out = bench.filled(type, q), dout = bench.filled(type, q), dq = bench.tensor(type, q);
    Tensor dk = bench.tensor(type, kv), dv = bench.tensor(type, kv), lse = bench.filled(DType::f32, heads * tokens);
    const AttentionShape shape{.batch = 1, .seq = tokens, .heads = heads, .kv_heads = kv_heads, .head_dim = dim};
    const double flops = causal_attention_flops(1, tokens, heads, dim);
    const std::string name = format("attention {} heads of {}, {} of keys, {}", heads, dim, kv_heads, dtype_name(type));
    bench.measure(name + ", forward", 0, flops, 0,
                  [&] { attention_forward(c, shape, query, key, value, out, lse.span<float>()); });
    bench.measure(name + ", backward", 0, 2.5 * flops, 0,
                  [&] { attention_backward(c, shape, dout, query, key, value, out, lse.span<float>(), dq, dk, dv); });
  }
}

void fused_and_fp8_products(Bench& bench) {
  bench_products({bench.context(), [&](DType dtype, std::int64_t size) { return bench.filled(dtype, size); },
                  [&](DType dtype, std::int64_t size) { return bench.tensor(dtype, size); },
                  [&](const std::string& name, double bytes, double flops, const std::function<void()>& operation) {
                    bench.measure(name, bytes, flops, 0, operation);
                  }});
}

void both_attentions(Bench& bench) {
  for (BenchEntry& entry : bench_attention(bench.gpu(), [&](auto& call) { return bench.seconds_of(call); }))
    bench.entries.push_back(std::move(entry));
}

void experts(Bench& bench) {
  bench_experts(bench.context(), [&](const auto&... entry) { bench.measure(entry...); });
}

void generation(Bench& bench) {
  for (BenchEntry& entry : decode_of_8b(bench.gpu())) bench.entries.push_back(std::move(entry));
}

// A block in a file of its own declares its function in a header of the same name and is one line here.
struct Block {
  const char* name;
  void (*measure)(Bench&);
};
constexpr Block blocks[] = {
    {"memory", memory_bound},  {"products", products},        {"fused", fused_and_fp8_products},
    {"attention", attentions}, {"backends", both_attentions}, {"experts", experts},
    {"decode", decode},        {"generation", generation},
};

int usage(const char* program) {
  std::fprintf(stderr, "usage: %s [--json FILE] [--only BLOCK]...\nblocks:", program);
  for (const Block& block : blocks) std::fprintf(stderr, " %s", block.name);
  std::fprintf(stderr, "\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::string json;
  std::vector<const Block*> chosen;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view option = argv[i];
    const Block* const named =
        i + 1 < argc ? std::ranges::find_if(
                           blocks, [&](const Block& block) { return std::string_view(argv[i + 1]) == block.name; })
                     : std::end(blocks);
    if (option == "--json" && i + 1 < argc)
      json = argv[i + 1];
    else if (option == "--only" && named != std::end(blocks))
      chosen.push_back(named);
    else
      return usage(argv[0]);
  }
  if (chosen.empty())
    for (const Block& block : blocks) chosen.push_back(&block);
  const std::shared_ptr<Gpu> gpu = testing::open_real_gpu();
  if (!gpu) return testing::kNoGpu;
  Bench bench(*gpu);
  bench.find_ceilings();
  for (const Block* const block : chosen) block->measure(bench);
  return print_report(bench, gpu->device().name(), json);
}
