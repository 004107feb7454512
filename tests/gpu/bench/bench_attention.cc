#include "tests/gpu/bench/bench_attention.h"

#include <cstdio>

#include "base/text/text.h"
#include "contracts/model/model_shape.h"
#include "engine/core/tensor/tensor.h"
#include "engine/ops/attention/attention.h"
#include "engine/ops/pointwise/elementwise.h"

namespace longhaul::gpu_bench {
namespace {

struct Heads {
  std::int64_t batch, seq, heads, kv_heads, dim, window = 0;
};
// Llama-2 7B, Llama-3 8B, GPT-2 124M with several sequences, a long one, and that with Mistral 7B's window.
constexpr Heads shapes[] = {{1, 4096, 32, 32, 128},
                            {1, 4096, 32, 8, 128},
                            {4, 1024, 12, 12, 64},
                            {1, 16384, 32, 8, 128},
                            {1, 16384, 32, 8, 128, 4096}};

struct Way {
  const char* name;
  AttentionSettings settings;
};
const Way ways[] = {
    {"own", {"own", true}}, {"cudnn, deterministic", {"auto", true}}, {"cudnn, any order", {"auto", false}}};

class Attention {
 public:
  Attention(const Heads& h, const ComputeContext& context, MemoryAccount& account) : h_(h), context_(context) {
    const std::int64_t q = h.batch * h.seq * h.heads * h.dim, kv = h.batch * h.seq * h.kv_heads * h.dim;
    for (const std::int64_t size : {q, kv, kv, q, q, q, kv, kv})
      fill(context, tensors_.emplace_back(DType::bf16, Shape{size}, &account).view(), 0.015625F);
    lse_ = Tensor(DType::f32, Shape{h.batch * h.heads * h.seq}, &account);
  }
  void forward() { attention_forward(context_, shape(), t(0), t(1), t(2), t(3), lse_.span<float>()); }
  void backward() {
    attention_backward(context_, shape(), t(4), t(0), t(1), t(2), t(3), lse_.span<float>(), t(5), t(6), t(7));
  }
  double flops() const {
    ModelShape shape;
    shape.sliding_window = h_.window;
    return 4 * static_cast<double>(h_.batch * h_.seq * h_.heads * h_.dim) * shape.keys_per_token(h_.seq);
  }

 private:
  Tensor& t(std::size_t i) { return tensors_[i]; }
  AttentionShape shape() const {
    AttentionShape shape{.batch = h_.batch, .seq = h_.seq, .heads = h_.heads};
    shape.kv_heads = h_.kv_heads, shape.head_dim = h_.dim, shape.window = h_.window;
    return shape;
  }
  Heads h_;
  const ComputeContext& context_;
  std::vector<Tensor> tensors_;  // q, k, v, out, dout, dq, dk, dv
  Tensor lse_;
};

}  // namespace

std::vector<BenchEntry> bench_attention(Gpu& gpu,
                                        const std::function<double(const std::function<void()>&)>& seconds_of) {
  std::vector<BenchEntry> entries;
  MemoryAccount account;
  account.device = &gpu.device();
  const ComputeContext context(gpu.device(), gpu.ops());
  for (const Heads& h : shapes) {
    Attention attention(h, context, account);
    for (const Way& way : ways) {
      const std::string name = format("attention {}x{} {} heads of {}, {} of keys{}, {}", h.batch, h.seq, h.heads,
                                      h.dim, h.kv_heads, h.window > 0 ? format(", window {}", h.window) : "", way.name);
      AttentionChoice taken;  // what the last case that came for the first time took
      LH_ASSERT(gpu.use_attention(way.settings, [&](const AttentionReport& r) { taken = r.choice; }).ok(), name);
      const auto measure = [&](const char* pass, double flops, const std::function<void()>& call) {
        call();  // plans are made, and reported
        if (way.settings.backend != "own" && taken.way != AttentionWay::cudnn)
          std::printf("%s, %s: left out, %s\n", name.c_str(), pass, taken.reason.c_str());
        else
          entries.push_back({format("{}, {}", name, pass), seconds_of(call), 0, flops, 0});
      };
      measure("forward", attention.flops(), [&] { attention.forward(); });
      measure("backward", 2.5 * attention.flops(), [&] { attention.backward(); });
    }
  }
  LH_ASSERT(gpu.use_attention({}, {}).ok(), "the default");
  return entries;
}

}  // namespace longhaul::gpu_bench
