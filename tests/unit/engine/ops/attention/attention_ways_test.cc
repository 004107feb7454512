// Attention as a GPU takes it when nothing is said: by cuDNN where it has one. (The emulated GPU has none, and takes
// the own kernels; cuDNN's stand-in is in tests/parity/cudnn_attention_test.cc.)
#include <cstring>

#include "engine/ops/attention/attention.h"
#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

namespace {

struct Results {
  Tensor out, dq, dk, dv;
  std::vector<float> lse;
  bool operator==(const Results& other) const {
    const auto same = [](const Tensor& a, const Tensor& b) {
      return std::memcmp(a.view().data(), b.view().data(), static_cast<std::size_t>(a.view().bytes())) == 0;
    };
    return same(out, other.out) && same(dq, other.dq) && same(dk, other.dk) && same(dv, other.dv) && lse == other.lse;
  }
};

}  // namespace

TEST_CASE("attention by default follows the reference, and twice gives the same bits where that was asked for") {
  struct Sizes {
    Index batch, seq, heads, kv_heads, head_dim, kv_seq;
  };
  for (const Backend& on : kBackends) {
    for (const bool deterministic : {true, false}) {
      for (const Sizes& z : {Sizes{2, 70, 4, 2, 64, 70}, {1, 37, 2, 1, 128, 101}, {1, 130, 2, 2, 128, 130}}) {
        OpContext context(2, on);
        std::vector<std::string> reported;
        context.use_attention({"auto", deterministic}, [&](const AttentionReport& report) {
          reported.push_back(report.asked.text() + ": " + attention_way_name(report.choice.way) + ", " +
                             report.choice.reason);
        });
        const std::uint64_t seed = 300 + static_cast<std::uint64_t>(z.seq);
        const Index nq = z.batch * z.seq * z.heads * z.head_dim, nkv = z.batch * z.kv_seq * z.kv_heads * z.head_dim;
        const Values q = random_values(DType::bf16, nq, seed, 1.5), k = random_values(DType::bf16, nkv, seed + 1, 1.5);
        const Values v = random_values(DType::bf16, nkv, seed + 2), dout = random_values(DType::bf16, nq, seed + 3);
        const AttentionShape shape{.batch = z.batch,
                                   .seq = z.seq,
                                   .heads = z.heads,
                                   .kv_heads = z.kv_heads,
                                   .head_dim = z.head_dim,
                                   .kv_seq = z.kv_seq};
        const auto run = [&] {
          Results r{Tensor(DType::bf16, {nq}), Tensor(DType::bf16, {nq}), Tensor(DType::bf16, {nkv}),
                    Tensor(DType::bf16, {nkv}),
                    std::vector<float>(static_cast<std::size_t>(z.batch * z.heads * z.seq))};
          attention_forward(context, shape, q, k, v, r.out, r.lse);
          attention_backward(context, shape, dout, q, k, v, r.out, r.lse, r.dq, r.dk, r.dv);
          return r;
        };
        const Results r = run();
        std::string text = case_text("attention by default", DType::bf16, on, seed);
        for (const std::string& way : reported) text += "; " + way;
        if (on.gpu) CHECK_MESSAGE(reported.size() == 2, text);
        const double scale = 1.0 / std::sqrt(static_cast<double>(z.head_dim));
        const reference::AttentionCase c{z.batch, z.seq, z.heads, z.kv_heads, z.head_dim, z.kv_seq, scale, {}};
        const auto want = reference::attention(c, q.exact, k.exact, v.exact);
        const auto g = reference::attention_backward(c, dout.exact, q.exact, k.exact, v.exact);
        check_close(text + " out", r.out, want.out, tolerance(DType::bf16));
        check_close(text + " lse", ConstView(r.lse), want.lse, 2e-6);  // a GPU's own exponentials
        check_close(text + " dq", r.dq, g.dq, 2.0 * tolerance(DType::bf16));
        check_close(text + " dk", r.dk, g.dk, 2.0 * tolerance(DType::bf16));
        check_close(text + " dv", r.dv, g.dv, 2.0 * tolerance(DType::bf16));
        if (deterministic) CHECK_MESSAGE(run() == r, text);
      }
    }
  }
}
