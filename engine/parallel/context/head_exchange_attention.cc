#include <vector>

#include "engine/ops/pointwise/row_blocks.h"
#include "engine/parallel/context/context_parts.h"

namespace longhaul {
namespace {

// Columns of fused rows [t, stride], from `begin` on, of which every rank has `columns` of all heads' in turn.
template <bool is_const>
struct HeadColumns {
  BasicView<is_const> rows;
  std::int64_t stride, begin, columns;
};

// Between the two exchanges a rank has heads / cp heads of all tokens. It keeps queries, keys, values and log-sum-exps
// like that: they are as many elements.
class HeadExchangeAttention final : public SplitContextAttention {
 public:
  HeadExchangeAttention(Mesh& mesh, const ContextAttentionSizes& sizes, MemoryAccount* account)
      : SplitContextAttention(mesh, sizes) {
    LH_ASSERT(sizes.kv_heads % shard_.ranks() == 0, "layout_problems() refuses it");
    const std::int64_t all = sizes.tokens_max * shard_.ranks();
    here_.heads = sizes.heads / shard_.ranks(), here_.kv_heads = sizes.kv_heads / shard_.ranks();
    here_.head_dim = sizes.head_dim;
    const std::int64_t widest = sizes.training ? std::max(here_.width(), 2 * here_.q()) : here_.width();
    outgoing_ = Tensor(sizes.dtype, {all, widest}, account);
    incoming_ = Tensor(sizes.dtype, {all, widest}, account);
    whole_ = Tensor(sizes.dtype, {all, sizes.training ? 2 * here_.q() : here_.q()}, account);
    if (sizes.training) gradient_ = Tensor(sizes.dtype, {all, here_.width()}, account);
  }

  void forward(const ComputeContext& context, const ContextTokens& tokens, View qkv, View out,
               std::span<float> lse) override {
    const std::int64_t q = here_.q(), kv = here_.kv();
    to_heads(context, tokens, columns_of(ConstView(qkv)), qkv);
    if (!status_.ok()) return;
    attention_forward(context, shape_of(tokens), qkv, elements_from(qkv, q), elements_from(qkv, q + kv), whole_, lse,
                      tokens.whole_first_key);
    to_tokens(context, tokens, whole_, {{out, sizes_.q(), 0, q}});
  }

  void backward(const ComputeContext& context, const ContextTokens& tokens, ConstView dout, ConstView qkv,
                ConstView out, std::span<const float> lse, View dqkv) override {
    const std::int64_t q = here_.q(), kv = here_.kv();
    to_heads(context, tokens, {{dout, sizes_.q(), 0, q}, {out, sizes_.q(), 0, q}}, whole_);
    if (!status_.ok()) return;
    AttentionShape shape = shape_of(tokens);
    shape.out_stride = 2 * q;
    const View dq = gradient_;
    attention_backward(context, shape, whole_, qkv, elements_from(qkv, q), elements_from(qkv, q + kv),
                       elements_from(whole_.view(), q), lse, dq, elements_from(dq, q), elements_from(dq, q + kv),
                       tokens.whole_first_key);
    to_tokens(context, tokens, gradient_, columns_of(dqkv));
  }

 private:
  template <bool is_const>
  using Columns = std::vector<HeadColumns<is_const>>;

  template <bool is_const>
  Columns<is_const> columns_of(const BasicView<is_const>& qkv) const {
    const std::int64_t width = sizes_.width(), q = sizes_.q(), kv = sizes_.kv();
    return {{qkv, width, 0, here_.q()}, {qkv, width, q, here_.kv()}, {qkv, width, q + kv, here_.kv()}};
  }
  template <bool is_const>
  static std::int64_t width_of(const Columns<is_const>& columns) {
    std::int64_t width = 0;
    for (const HeadColumns<is_const>& group : columns) width += group.columns;
    return width;
  }

  // This rank's tokens of all heads -> all tokens of its heads, [sequences, whole length, columns].
  void to_heads(const ComputeContext& context, const ContextTokens& tokens, const Columns<true>& from, View whole) {
    if (!status_.ok()) return;
    const std::int64_t t = tokens.tokens(), width = width_of(from);
    for (int rank = 0; rank < shard_.ranks(); ++rank) {
      std::int64_t at = rank * t * width;
      for (const HeadColumns<true>& group : from) {
        copy_rows(context, {t, group.columns, group.stride, width},
                  elements_from(group.rows, group.begin + rank * group.columns), elements_from(outgoing_.view(), at));
        at += group.columns;
      }
    }
    exchange(t * width);
    ranks_to_sequences(context, shard_, tokens, width, incoming_, whole);
  }

  void to_tokens(const ComputeContext& context, const ContextTokens& tokens, ConstView whole,
                 const Columns<false>& to) {
    const std::int64_t t = tokens.tokens(), width = width_of(to);
    sequences_to_ranks(context, shard_, tokens, width, whole, outgoing_);
    exchange(t * width);
    for (int rank = 0; rank < shard_.ranks(); ++rank) {
      std::int64_t at = rank * t * width;
      for (const HeadColumns<false>& group : to) {
        copy_rows(context, {t, group.columns, width, group.stride}, elements_from(incoming_.view(), at),
                  elements_from(group.rows, group.begin + rank * group.columns));
        at += group.columns;
      }
    }
  }

  void exchange(std::int64_t elements_per_rank) {
    const std::int64_t elements = elements_per_rank * shard_.ranks();
    finish(communicator_.all_to_all(bytes_of(ConstView(outgoing_), elements), bytes_of(incoming_.view(), elements)));
  }

  AttentionShape shape_of(const ContextTokens& tokens) const {
    AttentionShape shape;
    shape.window = sizes_.window;
    shape.batch = sequences_of(tokens), shape.seq = whole_length(tokens);
    shape.heads = here_.heads, shape.kv_heads = here_.kv_heads, shape.head_dim = here_.head_dim;
    shape.q_stride = shape.kv_stride = here_.width();
    return shape;
  }

  ContextAttentionSizes here_;  // of the heads that this rank computes
  Tensor outgoing_, incoming_;  // [cp, t, columns]
  Tensor whole_;                // of all tokens: out, or dout beside out
  Tensor gradient_;             // of all tokens: of queries, keys and values
};

}  // namespace

std::unique_ptr<ContextAttention> make_head_exchange_attention(Mesh& mesh, const ContextAttentionSizes& sizes,
                                                               MemoryAccount* account) {
  return std::make_unique<HeadExchangeAttention>(mesh, sizes, account);
}

}  // namespace longhaul
