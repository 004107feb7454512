// Speed of the operations at the shapes of a small Llama, beside the ceiling: the best GEMM rate measured in this very
// run (machines are shared: the best of many tries, compared within one run only). usage: ops_bench [--seconds s]
// [--threads n] [--cpu-max portable|avx2|avx512|avx512_bf16|amx]
// [--only ceiling,linear,attention,rows,moe,decode,codes]
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/digest/philox.h"
#include "base/system/clock.h"
#include "engine/ops/attention/attention.h"
#include "engine/ops/attention/rope.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/cpu_levels.h"
#include "engine/ops/experts/moe_balance.h"
#include "engine/ops/experts/moe_dispatch.h"
#include "engine/ops/experts/moe_grouped_linear.h"
#include "engine/ops/linear/gemv.h"
#include "engine/ops/linear/weight_only.h"
#include "engine/ops/loss/cross_entropy.h"
#include "engine/ops/pointwise/adamw.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/ops/pointwise/rmsnorm.h"
#include "engine/ops/pointwise/swiglu.h"

using namespace longhaul;
using Index = std::int64_t;

namespace {

struct Bench {
  SystemClock clock;
  double seconds = 0.5;
  ComputeContext context;
  double ceiling[2] = {0.0, 0.0};  // GFLOP/s, f32 and bf16

  explicit Bench(int threads) : context(threads) {}

  // Wall time; with one thread the processor's time, so that neighbours on the machine count less.
  std::int64_t now_ns() const {
    if (context.threads() > 1) return clock.monotonic_ns();
    struct timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
  }
  template <class F>
  double best_ms(const F& fn) {
    fn();
    std::vector<double> times;
    const std::int64_t end = clock.monotonic_ns() + static_cast<std::int64_t>(seconds * 1e9);
    while (times.size() < 3 || clock.monotonic_ns() < end) {
      const std::int64_t begin = now_ns();
      fn();
      times.push_back(static_cast<double>(now_ns() - begin) * 1e-6);
    }
    return *std::min_element(times.begin(), times.end());
  }
  void report(const std::string& name, DType dtype, double ms, double flop, double bytes) const {
    const double limit = ceiling[dtype == DType::bf16 ? 1 : 0];
    std::printf("%-44s %-4s %9.3f ms", name.c_str(), dtype_name(dtype), ms);
    if (flop > 0.0)
      std::printf(" %8.1f GFLOP/s %4.0f %%", flop / ms * 1e-6, limit > 0.0 ? 100.0 * flop / ms * 1e-6 / limit : 100.0);
    if (bytes > 0.0) std::printf(" %8.1f GB/s", bytes / ms * 1e-6);
    std::printf("\n");
    std::fflush(stdout);
  }
};

Tensor random_tensor(DType dtype, Index n, std::uint64_t seed) {
  Tensor t(dtype, {n});
  const Philox philox{seed, 0};
  for (Index i = 0; i < n; ++i) {
    const float x = philox.uniform(static_cast<std::uint64_t>(i)) - 0.5F;
    if (dtype == DType::f32) {
      t.span<float>()[static_cast<std::size_t>(i)] = x;
    } else {
      t.span<bf16>()[static_cast<std::size_t>(i)] = bf16(x);
    }
  }
  return t;
}

void bench_ceiling(Bench& b) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (Index n : {1024, 2048}) {
      const Tensor x = random_tensor(dtype, n * n, 1), y = random_tensor(dtype, n * n, 2);
      Tensor z(dtype, {n * n});
      const double flop = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
      const double ms = b.best_ms([&] { gemm(b.context, {.m = n, .n = n, .k = n}, x, y, z); });
      double& ceiling = b.ceiling[dtype == DType::bf16 ? 1 : 0];
      ceiling = std::max(ceiling, flop / ms * 1e-6);
      b.report("gemm " + std::to_string(n) + " cubed (ceiling)", dtype, ms, flop, 0.0);
    }
  }
}

void bench_linear(Bench& b) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (const LinearShape& s : {LinearShape{4096, 256, 512},
                                 {4096, 384, 640},
                                 {4096, 384, 1024},
                                 {4096, 384, 2048},
                                 {4096, 1024, 384},
                                 {4096, 384, 8192}}) {
      const std::string name = std::to_string(s.tokens) + "x" + std::to_string(s.in) + "->" + std::to_string(s.out);
      const Tensor x = random_tensor(dtype, s.tokens * s.in, 1), w = random_tensor(dtype, s.in * s.out, 2),
                   dy = random_tensor(dtype, s.tokens * s.out, 3);
      Tensor y(dtype, {s.tokens * s.out}), dx(dtype, {s.tokens * s.in}), dw(DType::f32, {s.in * s.out});
      const double flop = 2.0 * static_cast<double>(s.tokens * s.in) * static_cast<double>(s.out);
      b.report("linear " + name, dtype, b.best_ms([&] { linear_forward(b.context, s, x, w, y); }), flop, 0.0);
      b.report("linear backward input " + name, dtype,
               b.best_ms([&] { linear_backward_input(b.context, s, dy, w, dx); }), flop, 0.0);
      b.report("linear backward weight " + name, dtype,
               b.best_ms([&] { linear_backward_weight(b.context, s, dy, x, dw); }), flop, 0.0);
    }
  }
}

void bench_attention(Bench& b) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (const AttentionShape& s :
         {AttentionShape{.batch = 16, .seq = 256, .heads = 6, .kv_heads = 2, .head_dim = 64},
          AttentionShape{.batch = 8, .seq = 512, .heads = 6, .kv_heads = 2, .head_dim = 64},
          AttentionShape{.batch = 8, .seq = 512, .heads = 8, .kv_heads = 4, .head_dim = 32}}) {
      const Index nq = s.batch * s.seq * s.heads * s.head_dim, nkv = s.batch * s.seq * s.kv_heads * s.head_dim;
      const Tensor q = random_tensor(dtype, nq, 1), k = random_tensor(dtype, nkv, 2), v = random_tensor(dtype, nkv, 3);
      Tensor out(dtype, {nq}), dq(dtype, {nq}), dk(dtype, {nkv}), dv(dtype, {nkv});
      std::vector<float> lse(static_cast<std::size_t>(s.batch * s.heads * s.seq));
      // The causal half of two products; backward has five.
      const double pair = 2.0 * static_cast<double>(s.batch * s.heads) * static_cast<double>(s.seq * s.seq) *
                          static_cast<double>(s.head_dim) / 2.0;
      const std::string name = "b=" + std::to_string(s.batch) + " s=" + std::to_string(s.seq) +
                               " n=" + std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) +
                               " d=" + std::to_string(s.head_dim);
      b.report("attention " + name, dtype, b.best_ms([&] { attention_forward(b.context, s, q, k, v, out, lse); }),
               2.0 * pair, 0.0);
      b.report("attention backward " + name, dtype,
               b.best_ms([&] { attention_backward(b.context, s, q, q, k, v, out, lse, dq, dk, dv); }), 5.0 * pair, 0.0);
    }
  }
}

void bench_rows(Bench& b) {
  const Index tokens = 4096, hidden = 384, ffn = 1024, vocab = 8192;
  for (DType dtype : {DType::f32, DType::bf16}) {
    const double size = static_cast<double>(dtype_bytes(dtype));
    const Tensor x = random_tensor(dtype, tokens * hidden, 1), w = random_tensor(dtype, hidden, 2),
                 head = random_tensor(dtype, vocab * hidden, 3);
    Tensor y(dtype, {tokens * hidden}), dx(dtype, {tokens, hidden}), dhead(DType::f32, {vocab, hidden});
    std::vector<float> r(tokens, 1.0F), dw(hidden), weights(tokens, 1.0F / 4096.0F), loss(tokens);
    std::vector<std::int32_t> targets(tokens);
    for (Index t = 0; t < tokens; ++t)
      targets[static_cast<std::size_t>(t)] = static_cast<std::int32_t>(t * 7919 % vocab);
    const double th = static_cast<double>(tokens * hidden), tf = static_cast<double>(tokens * ffn),
                 tv = static_cast<double>(tokens * vocab);
    b.report("rmsnorm 4096x384", dtype,
             b.best_ms([&] { rmsnorm_forward(b.context, {tokens, hidden, 1e-5F}, x, w, y, r); }), 0.0, 2.0 * th * size);
    b.report("rmsnorm backward", dtype,
             b.best_ms([&] { rmsnorm_backward(b.context, {tokens, hidden, 1e-5F}, y, x, w, r, dx, dw); }), 0.0,
             3.0 * th * size);
    const Tensor gate = random_tensor(dtype, tokens * ffn, 4), up = random_tensor(dtype, tokens * ffn, 5);
    Tensor act(dtype, {tokens * ffn}), dgate(dtype, {tokens * ffn}), dup(dtype, {tokens * ffn});
    b.report("swiglu 4096x1024", dtype, b.best_ms([&] { swiglu_forward(b.context, {tokens, ffn}, gate, up, act); }),
             0.0, 3.0 * tf * size);
    b.report("swiglu backward", dtype,
             b.best_ms([&] { swiglu_backward(b.context, {tokens, ffn}, act, gate, up, dgate, dup); }), 0.0,
             5.0 * tf * size);
    const RopeTable table = make_rope_table(512, 64, 10000.0);
    b.report("rope 4096x6x64", dtype, b.best_ms([&] { rope_apply(b.context, {tokens, 6, 64}, table, {}, 512, y); }),
             0.0, 2.0 * th * size);
    Tensor z = random_tensor(dtype, tokens * vocab, 6), dz(dtype, {tokens * vocab});
    b.report("cross-entropy fwd+bwd 4096x8192", dtype, b.best_ms([&] {
      cross_entropy_forward_backward(b.context, {tokens, vocab}, z, targets, weights, loss, dz);
    }),
             0.0, 2.0 * tv * size);
    const LmHeadShape shape{tokens, hidden, vocab};
    b.report("output layer + loss, fwd+bwd 4096x384->8192", dtype,
             b.best_ms([&] { lm_head_loss(b.context, shape, x, head, targets, weights, loss, dx, dhead); }),
             6.0 * th * static_cast<double>(vocab), 0.0);
  }
  const Index n = 10'000'000;
  Tensor p = random_tensor(DType::f32, n, 1), m(DType::f32, {n}), v(DType::f32, {n}), copy(DType::bf16, {n});
  const Tensor g = random_tensor(DType::f32, n, 2);
  b.report("adamw 10 M", DType::f32,
           b.best_ms([&] { adamw_update(b.context, {}, p.span<float>(), m, v, g.span<float>(), copy); }), 0.0,
           30.0 * static_cast<double>(n));
  Tensor m16(DType::bf16, {n}), v16(DType::bf16, {n});
  const AdamWRounding chance{{1, 2}, {}, 0};
  for (const AdamWRounding* rounding : {static_cast<const AdamWRounding*>(nullptr), &chance}) {
    const std::string how = rounding ? ", stochastic" : ", to nearest";
    b.report("adamw 10 M, bf16 moments" + how, DType::f32, b.best_ms([&] {
      adamw_update(b.context, {}, p.span<float>(), m16, v16, g.span<float>(), copy, rounding);
    }),
             0.0, 22.0 * static_cast<double>(n));
    b.report("adamw 10 M, first moment bf16" + how, DType::f32,
             b.best_ms([&] { adamw_update(b.context, {}, p.span<float>(), m16, v, g.span<float>(), copy, rounding); }),
             0.0, 26.0 * static_cast<double>(n));
  }
  b.report("sum of squares 10 M", DType::f32, b.best_ms([&] { (void)sum_of_squares(b.context, g.span<float>()); }), 0.0,
           4.0 * static_cast<double>(n));
}

void bench_experts(Bench& b, const RouterShape& s, Index hidden, Index ffn) {
  const std::string name =
      " t=" + std::to_string(s.tokens) + " E=" + std::to_string(s.experts) + " k=" + std::to_string(s.top_k);
  const Tensor z = random_tensor(DType::f32, s.tokens * s.experts, 1);
  const std::span<const float> logits = z.span<float>();
  std::vector<std::int32_t> ids(static_cast<std::size_t>(s.tokens * s.top_k));
  std::vector<float> weights(ids.size()), dweights(ids.size()), dlogits(logits.size());
  b.report("moe select, gate" + name, DType::f32, b.best_ms([&] {
    moe_select(b.context, s, logits, {}, ids);
    moe_gate_forward(b.context, s, logits, ids, weights);
  }),
           0.0, 4.0 * static_cast<double>(logits.size()));
  b.report("moe statistics, losses, both gradients" + name, DType::f32, b.best_ms([&] {
    const RouterStatistics sums = moe_router_statistics(b.context, s, logits, ids);
    moe_gate_backward(b.context, s, logits, ids, weights, dlogits);
    moe_statistics_backward(b.context, s, logits,
                            moe_balance_loss(sums, s.top_k, 1e-2, BalanceLoss::megatron) + moe_z_loss(sums, 1e-3), 1.0F,
                            dlogits);
  }),
           0.0, 4.0 * static_cast<double>(2 * logits.size()));
  DispatchPlan plan;
  b.report("moe plan" + name, DType::f32, b.best_ms([&] { plan = moe_dispatch(s.tokens, s.top_k, s.experts, ids); }),
           0.0, 0.0);
  const GroupedLinearShape shape{s.experts, hidden, ffn};
  for (DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = random_tensor(dtype, s.tokens * hidden, 2), w = random_tensor(dtype, s.experts * hidden * ffn, 3);
    Tensor rows(dtype, {plan.rows(), hidden}), out(dtype, {s.tokens, hidden}), y(dtype, {plan.rows(), ffn}),
        dw(DType::f32, {s.experts, ffn, hidden});
    const double bytes = static_cast<double>((plan.rows() + s.tokens) * hidden * dtype_bytes(dtype));
    const double flop = 2.0 * static_cast<double>(plan.rows() * hidden) * static_cast<double>(ffn);
    b.report("moe permute" + name, dtype, b.best_ms([&] { moe_permute(b.context, plan, hidden, x, rows); }), 0.0,
             bytes);
    b.report("moe combine" + name, dtype, b.best_ms([&] { moe_combine(b.context, plan, hidden, rows, weights, out); }),
             0.0, bytes);
    b.report("moe combine backward" + name, dtype,
             b.best_ms([&] { moe_combine_backward(b.context, plan, hidden, x, rows, weights, rows, dweights); }), 0.0,
             bytes + static_cast<double>(plan.rows() * hidden * dtype_bytes(dtype)));
    moe_permute(b.context, plan, hidden, x, rows);
    const std::string grouped = "grouped linear " + std::to_string(hidden) + "->" + std::to_string(ffn) + name;
    b.report(grouped, dtype, b.best_ms([&] { grouped_linear_forward(b.context, shape, plan.offsets, rows, w, y); }),
             flop, 0.0);
    b.report(grouped + ", input", dtype,
             b.best_ms([&] { grouped_linear_backward_input(b.context, shape, plan.offsets, y, w, rows); }), flop, 0.0);
    b.report(grouped + ", weight", dtype,
             b.best_ms([&] { grouped_linear_backward_weight(b.context, shape, plan.offsets, y, rows, dw); }), flop,
             0.0);
  }
}

void bench_moe(Bench& b) {
  bench_experts(b, {.tokens = 4096, .experts = 8, .top_k = 2}, 768, 2048);
  bench_experts(b, {.tokens = 4096, .experts = 64, .top_k = 8, .score = RouterScore::sigmoid}, 768, 384);
}

void bench_decode(Bench& b) {
  const LinearShape s{1, 4096, 4096};
  const Tensor x = random_tensor(DType::bf16, s.in, 1), w = random_tensor(DType::bf16, s.in * s.out, 2),
               wide = random_tensor(DType::f32, s.in * s.out, 2);
  Tensor y(DType::bf16, {s.out}), q(DType::i8, {s.in * s.out});
  const std::vector<float> scales(static_cast<std::size_t>(s.out), 0.01F);
  const double weights = static_cast<double>(s.in * s.out), flop = 2.0 * weights;
  b.report("gemv 1x4096x4096 f32 weights", DType::f32, b.best_ms([&] { gemv(b.context, s, x, wide, y); }), flop,
           4.0 * weights);
  b.report("gemv 1x4096x4096 bf16 weights", DType::bf16, b.best_ms([&] { gemv(b.context, s, x, w, y); }), flop,
           2.0 * weights);
  b.report("gemv 1x4096x4096 int8 weights", DType::bf16,
           b.best_ms([&] { linear_forward_int8(b.context, s, x, q, scales, y); }), flop, weights);
  const Index length = 2048, heads = 6, kv = 2, d = 64;
  const Tensor query = random_tensor(DType::bf16, 8 * heads * d, 3),
               cache = random_tensor(DType::bf16, length * kv * d, 4);
  Tensor out(DType::bf16, {8 * heads * d});
  const std::vector<KvCacheView> caches(8, KvCacheView{cache, cache, length});
  b.report("attention decode 8 sequences of 2048", DType::bf16,
           b.best_ms([&] { attention_decode(b.context, {heads, kv, d}, query, caches, out); }), 0.0,
           8.0 * 2.0 * 2.0 * static_cast<double>(length * kv * d));
}

// Weights of four and eight bits, for one token to a prompt. The weights are larger than a cache of a few cores.
void bench_codes(Bench& b) {
  constexpr Index in = 2048, out = 8192, group = 128;
  Tensor int8(DType::i8, {out * in}), fp8(DType::u8, {out * in}), packed(DType::u8, {out, int4_row_bytes(in)});
  const Philox philox{5, 0};
  for (Index i = 0; i < out * in; ++i) {
    const auto bits = static_cast<std::uint8_t>(philox.uniform(static_cast<std::uint64_t>(i)) * 256.0F);
    int8.span<std::int8_t>()[static_cast<std::size_t>(i)] = static_cast<std::int8_t>(bits);
    fp8.span<std::uint8_t>()[static_cast<std::size_t>(i)] = (bits & 0x7F) == 0x7F ? 0 : bits;
    if (i < packed.size()) packed.span<std::uint8_t>()[static_cast<std::size_t>(i)] = bits;
  }
  const std::vector<float> scales(static_cast<std::size_t>(out), 0.01F);
  Tensor group_scales(DType::f32, {out, int4_groups(in, group)});
  for (float& scale : group_scales.span<float>()) scale = 0.01F;
  const Int4View int4{packed, group_scales, {}, group};
  const Tensor bf16_weights = random_tensor(DType::bf16, in * out, 2);
  const double weights = static_cast<double>(in * out);
  for (const Index tokens : {1, 2, 4, 8, 9, 16, 24, 32, 48, 64, 128, 256}) {
    const LinearShape s{tokens, in, out};
    const Tensor x = random_tensor(DType::bf16, tokens * in, 1);
    Tensor y(DType::bf16, {tokens * out});
    const double flop = 2.0 * weights * static_cast<double>(tokens);
    const std::string of = " " + std::to_string(tokens) + "x2048->8192";
    b.report("bf16" + of, DType::bf16, b.best_ms([&] { linear_forward(b.context, s, x, bf16_weights, y); }), flop,
             2.0 * weights);
    b.report("int8" + of, DType::bf16, b.best_ms([&] { linear_forward_int8(b.context, s, x, int8, scales, y); }), flop,
             weights);
    b.report("fp8" + of, DType::bf16, b.best_ms([&] { linear_forward_fp8(b.context, s, x, fp8, scales, y); }), flop,
             weights);
    b.report("int4" + of, DType::bf16, b.best_ms([&] { linear_forward_int4(b.context, s, x, int4, y); }), flop,
             0.5 * weights);
  }
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 0.5;
  int threads = 1;
  std::string cpu_max, only;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--seconds") == 0) seconds = std::atof(argv[i + 1]);
    if (std::strcmp(argv[i], "--threads") == 0) threads = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--cpu-max") == 0) cpu_max = argv[i + 1];
    if (std::strcmp(argv[i], "--only") == 0) only = argv[i + 1];
  }
  if (const Status capped = cap_cpu_level(cpu_max); !capped.ok()) {
    std::fprintf(stderr, "ops_bench: %s\n", capped.error().message().c_str());
    return 2;
  }
  Bench bench(threads);
  bench.seconds = seconds;
  std::printf("kernels: %s\n", cpu::kernels_name(bench.context));
  constexpr std::pair<const char*, void (*)(Bench&)> blocks[] = {
      {"ceiling", bench_ceiling}, {"linear", bench_linear}, {"attention", bench_attention}, {"rows", bench_rows},
      {"moe", bench_moe},         {"decode", bench_decode}, {"codes", bench_codes}};
  for (const auto& [name, run] : blocks)
    if (only.empty() || ("," + only + ",").find("," + std::string(name) + ",") != std::string::npos) run(bench);
  return 0;
}
