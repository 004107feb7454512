#include "engine/ops/pointwise/elementwise.h"
#include "engine/ops/pointwise/row_blocks.h"
#include "engine/parallel/context/context_parts.h"

namespace longhaul {
namespace {

class GatherAttention final : public SplitContextAttention {
 public:
  GatherAttention(Mesh& mesh, const ContextAttentionSizes& sizes, MemoryAccount* account)
      : SplitContextAttention(mesh, sizes) {
    const std::int64_t t = sizes.tokens_max, all = t * shard_.ranks(), kv = 2 * sizes.kv();
    own_ = Tensor(sizes.dtype, {t, kv}, account);
    of_ranks_ = Tensor(sizes.dtype, {all, kv}, account);
    whole_ = Tensor(sizes.dtype, {all, kv}, account);
    if (!sizes.training) return;
    gradient_ = Tensor(sizes.dtype, {all, kv}, account);
    gradient_sum_ = Tensor(DType::f32, {all, kv}, account);
    own_gradient_ = Tensor(DType::f32, {t, kv}, account);
  }

  void forward(const ComputeContext& context, const ContextTokens& tokens, View qkv, View out,
               std::span<float> lse) override {
    gather(context, tokens, qkv);
    const std::int64_t n = rows_of_chunk(tokens);
    for (int half = 0; half < 2 && status_.ok(); ++half)
      attention_forward(context, shape_of(tokens, half), elements_from(qkv, half * n * sizes_.width()), whole_,
                        elements_from(whole_.view(), sizes_.kv()), elements_from(out, half * n * sizes_.q()),
                        lse.subspan(static_cast<std::size_t>(half * n * sizes_.heads)), first_key(tokens, half));
  }

  void backward(const ComputeContext& context, const ContextTokens& tokens, ConstView dout, ConstView qkv,
                ConstView out, std::span<const float> lse, View dqkv) override {
    gather(context, tokens, qkv);
    if (!status_.ok()) return;
    const std::int64_t n = rows_of_chunk(tokens), t = tokens.tokens(), q = sizes_.q(), kv = 2 * sizes_.kv();
    const std::int64_t width = sizes_.width();
    fill(context, gradient_sum_, 0.0F);
    for (int half = 0; half < 2; ++half) {
      attention_backward(
          context, shape_of(tokens, half), elements_from(dout, half * n * q), elements_from(qkv, half * n * width),
          whole_, elements_from(whole_.view(), sizes_.kv()), elements_from(out, half * n * q),
          lse.subspan(static_cast<std::size_t>(half * n * sizes_.heads)), elements_from(dqkv, half * n * width),
          gradient_, elements_from(gradient_.view(), sizes_.kv()), first_key(tokens, half));
      add_up(context, tokens, shard_.chunk(half));
    }
    const auto count = static_cast<std::size_t>(t * kv);
    finish(communicator_.reduce_scatter_sum(
        gradient_sum_.span<float>().first(count * static_cast<std::size_t>(shard_.ranks())),
        own_gradient_.span<float>().first(count)));
    copy_rows(context, {t, kv, kv, width}, own_gradient_, elements_from(dqkv, q));
  }

 private:
  // Keys and values of all ranks, sequence by sequence, into whole_.
  void gather(const ComputeContext& context, const ContextTokens& tokens, ConstView qkv) {
    if (!status_.ok()) return;
    const std::int64_t t = tokens.tokens(), kv = 2 * sizes_.kv();
    copy_rows(context, {t, kv, sizes_.width(), kv}, elements_from(qkv, sizes_.q()), own_);
    finish(communicator_.all_gather(bytes_of(ConstView(own_), t * kv),
                                    bytes_of(of_ranks_.view(), t * kv * shard_.ranks())));
    ranks_to_sequences(context, shard_, tokens, kv, of_ranks_, whole_);
  }

  // The gradients of a chunk's prefix, sequence by sequence, onto the sums of the ranks that own them.
  void add_up(const ComputeContext& context, const ContextTokens& tokens, int last_chunk) {
    const std::int64_t c = tokens.length, kv = 2 * sizes_.kv(), sequences = sequences_of(tokens);
    std::int64_t row = 0;
    for (int rank = 0; rank < shard_.ranks(); ++rank)
      for (int half = 0; half < 2; ++half)
        for (std::int64_t s = 0; s < sequences; ++s, row += c) {
          const int chunk = shard_.chunk_of(rank, half);
          if (chunk > last_chunk) continue;
          add_rows(context, {c, kv, kv, kv}, elements_from(gradient_.view(), (s * shard_.chunks() + chunk) * c * kv),
                   gradient_sum_.span<float>().subspan(static_cast<std::size_t>(row * kv)));
        }
  }

  // One chunk's queries, the keys up to its end.
  AttentionShape shape_of(const ContextTokens& tokens, int half) const {
    AttentionShape shape;
    shape.window = sizes_.window;
    shape.batch = sequences_of(tokens), shape.seq = tokens.length;
    shape.kv_seq = (shard_.chunk(half) + 1) * tokens.length;
    shape.heads = sizes_.heads, shape.kv_heads = sizes_.kv_heads, shape.head_dim = sizes_.head_dim;
    shape.q_stride = sizes_.width(), shape.kv_stride = 2 * sizes_.kv();
    shape.kv_batch_stride = whole_length(tokens) * shape.kv_stride;
    return shape;
  }
  static std::span<const std::int32_t> first_key(const ContextTokens& tokens, int half) {
    if (tokens.first_key.empty()) return {};
    const auto n = static_cast<std::size_t>(rows_of_chunk(tokens));
    return tokens.first_key.subspan(static_cast<std::size_t>(half) * n, n);
  }

  Tensor own_, of_ranks_, whole_;                  // keys and values, [t, 2 kv] and of all ranks
  Tensor gradient_, gradient_sum_, own_gradient_;  // theirs: of one chunk's queries; f32 sums over both, over the ranks
};

}  // namespace

std::unique_ptr<ContextAttention> make_gather_attention(Mesh& mesh, const ContextAttentionSizes& sizes,
                                                        MemoryAccount* account) {
  return std::make_unique<GatherAttention>(mesh, sizes, account);
}

}  // namespace longhaul
