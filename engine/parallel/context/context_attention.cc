#include "engine/parallel/context/context_attention.h"

#include "base/text/text.h"
#include "engine/ops/pointwise/row_blocks.h"
#include "engine/parallel/context/context_parts.h"

namespace longhaul {
namespace {

// No other rank.
class WholeAttention final : public ContextAttention {
 public:
  explicit WholeAttention(const ContextAttentionSizes& sizes) : sizes_(sizes) {}

  void forward(const ComputeContext& context, const ContextTokens& tokens, View qkv, View out,
               std::span<float> lse) override {
    const std::int64_t q = sizes_.q(), kv = sizes_.kv();
    attention_forward(context, shape_of(tokens), qkv, elements_from(qkv, q), elements_from(qkv, q + kv), out, lse,
                      tokens.first_key);
  }
  void backward(const ComputeContext& context, const ContextTokens& tokens, ConstView dout, ConstView qkv,
                ConstView out, std::span<const float> lse, View dqkv) override {
    const std::int64_t q = sizes_.q(), kv = sizes_.kv();
    attention_backward(context, shape_of(tokens), dout, qkv, elements_from(qkv, q), elements_from(qkv, q + kv), out,
                       lse, dqkv, elements_from(dqkv, q), elements_from(dqkv, q + kv), tokens.first_key);
  }

 private:
  AttentionShape shape_of(const ContextTokens& tokens) const {
    AttentionShape shape;
    shape.window = sizes_.window;
    shape.batch = tokens.pieces, shape.seq = tokens.length;
    shape.heads = sizes_.heads, shape.kv_heads = sizes_.kv_heads, shape.head_dim = sizes_.head_dim;
    shape.q_stride = shape.kv_stride = sizes_.width();
    return shape;
  }
  ContextAttentionSizes sizes_;
};

// f(row of [ranks][half][sequence][chunk], row of [sequence][whole], rows), for every chunk of every sequence.
template <class F>
void for_each_chunk(const ContextShard& shard, const ContextTokens& tokens, const F& f) {
  const std::int64_t c = tokens.length, sequences = tokens.pieces / 2;
  std::int64_t row = 0;
  for (int rank = 0; rank < shard.ranks(); ++rank)
    for (int half = 0; half < 2; ++half)
      for (std::int64_t s = 0; s < sequences; ++s, row += c)
        f(row, (s * shard.chunks() + shard.chunk_of(rank, half)) * c, c);
}

}  // namespace

void ranks_to_sequences(const ComputeContext& context, const ContextShard& shard, const ContextTokens& tokens,
                        std::int64_t columns, ConstView ranks, View sequences) {
  for_each_chunk(shard, tokens, [&](std::int64_t of_rank, std::int64_t of_sequence, std::int64_t rows) {
    copy_rows(context, {rows, columns, columns, columns}, elements_from(ranks, of_rank * columns),
              elements_from(sequences, of_sequence * columns));
  });
}

void sequences_to_ranks(const ComputeContext& context, const ContextShard& shard, const ContextTokens& tokens,
                        std::int64_t columns, ConstView sequences, View ranks) {
  for_each_chunk(shard, tokens, [&](std::int64_t of_rank, std::int64_t of_sequence, std::int64_t rows) {
    copy_rows(context, {rows, columns, columns, columns}, elements_from(sequences, of_sequence * columns),
              elements_from(ranks, of_rank * columns));
  });
}

Result<ContextAttentionKind> context_attention_kind(const std::string& name) {
  if (name == "ring") return ContextAttentionKind::ring;
  if (name == "gather") return ContextAttentionKind::gather;
  if (name == "a2a") return ContextAttentionKind::a2a;
  return make_error(ErrorCode::invalid_input, format("cp_attention = \"{}\"", name), "ring, gather or a2a");
}

std::unique_ptr<ContextAttention> make_context_attention(ContextAttentionKind kind, Mesh* mesh,
                                                         const ContextAttentionSizes& sizes, MemoryAccount* account) {
  if (mesh == nullptr || mesh->dims().cp == 1) return std::make_unique<WholeAttention>(sizes);
  switch (kind) {
    case ContextAttentionKind::ring: return make_ring_attention(*mesh, sizes, account);
    case ContextAttentionKind::gather: return make_gather_attention(*mesh, sizes, account);
    case ContextAttentionKind::a2a: return make_head_exchange_attention(*mesh, sizes, account);
  }
  return nullptr;
}

}  // namespace longhaul
