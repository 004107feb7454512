#include "engine/model/inference/cached_attention.h"

#include "engine/ops/attention/attention.h"
#include "engine/ops/attention/kv_table.h"
#include "engine/ops/pointwise/embedding.h"

namespace longhaul {

CachedAttention::CachedAttention(const ModelShape& shape, DType dtype, MemoryAccount* memory)
    : shape_(shape), dtype_(dtype), memory_(memory), in_order_(memory) {}

void CachedAttention::append(const ComputeContext& context, const StepTable& table, int layer, ConstView qkv,
                             View q) const {
  kv_append(context, {table.tokens(), shape_.q_size(), shape_.kv_size()}, qkv, table.place_of_tokens(),
            table.row_of_tokens(), table.places(layer), q);
}

// Neighbouring sequences that bring one token each are attended to together.
void CachedAttention::attend(const ComputeContext& context, const Step& step, int layer, View qkv, View q, View out) {
  append(context, step.table, layer, qkv, q);
  for (std::size_t i = 0; i < step.steps.size();) {
    std::size_t behind = i;
    while (behind < step.steps.size() && step.steps[behind].tokens.size() == 1) ++behind;
    if (behind > i) {
      attend_decode(context, step, i, behind, layer, q, out);
      i = behind;
    } else {
      attend_prompt(context, step, i++, layer, q, out);
    }
  }
}

PagedShape CachedAttention::paged_shape(const KvPool& pool, std::int64_t sequences, std::int64_t longest) const {
  PagedShape shape;
  shape.sequences = sequences, shape.longest = longest;
  shape.heads = shape_.num_attention_heads, shape.kv_heads = shape_.num_key_value_heads;
  shape.head_dim = shape_.head_dim, shape.window = shape_.sliding_window;
  shape.pages = pool.pages(), shape.page_tokens = kKvPageTokens;
  shape.pages_each = KvPool::pages_for(decode_room(longest));
  return shape;
}

void CachedAttention::attend_decode(const ComputeContext& context, const Step& step, std::size_t begin, std::size_t end,
                                    int layer, View q, View out) const {
  const StepTable& table = step.table;
  const std::int64_t heads = shape_.num_attention_heads, kv_heads = shape_.num_key_value_heads, d = shape_.head_dim;
  const View queries = q.rows(table.begin(begin), table.end(end - 1));
  const View attended = out.rows(table.begin(begin), table.end(end - 1));
  KvPool* const pool = step.steps.front().cache->pool();
  if (pool == nullptr)
    return attention_decode_table(context, {heads, kv_heads, d, 0, shape_.sliding_window}, queries,
                                  table.places(layer).subspan(begin, end - begin), step.longest, attended);
  const PagedShape shape = paged_shape(*pool, static_cast<std::int64_t>(end - begin), step.longest);
  attention_decode_paged(context, shape, queries, pool->keys(layer), pool->values(layer),
                         table.pages(begin, end - begin), table.lengths(begin, end - begin), attended);
}

void CachedAttention::attend_prompt(const ComputeContext& context, const Step& step, std::size_t sequence, int layer,
                                    View q, View out) {
  const std::int64_t begin = step.table.begin(sequence), end = step.table.end(sequence);
  AttentionShape shape;
  shape.batch = 1, shape.seq = end - begin, shape.kv_seq = step.steps[sequence].cache->length() + shape.seq;
  shape.heads = shape_.num_attention_heads, shape.kv_heads = shape_.num_key_value_heads;
  shape.head_dim = shape_.head_dim, shape.window = shape_.sliding_window;
  const auto [keys, values] = in_order(context, step, sequence, layer);
  attention_forward(context, shape, q.rows(begin, end), keys, values, out.rows(begin, end), {});
}

// Pages are rows of a table, which the embedding's operation gathers: a copy of one text in one layer, far less work
// than the attention of several tokens to it.
std::pair<View, View> CachedAttention::in_order(const ComputeContext& context, const Step& step, std::size_t sequence,
                                                int layer) {
  KvCache& cache = *step.steps[sequence].cache;
  if (cache.pool() == nullptr) return {cache.keys(layer), cache.values(layer)};
  const auto pages = static_cast<std::int64_t>(cache.pages().size());
  const EmbeddingShape shape{pages, cache.pool()->pages(), kKvPageTokens * shape_.kv_size()};
  const View both = in_order_.take(dtype_, {2 * pages, shape.hidden});
  const std::span<const std::int32_t> numbers = step.table.pages(sequence, 1).first(cache.pages().size());
  embedding_forward(context, shape, numbers, cache.pool()->keys(layer), both.rows(0, pages));
  embedding_forward(context, shape, numbers, cache.pool()->values(layer), both.rows(pages, 2 * pages));
  return {both.rows(0, pages), both.rows(pages, 2 * pages)};
}

// What a device keeps for its decode is taken by a step of empty places as large as there will be.
void CachedAttention::take_scratch(const ComputeContext& context, std::int64_t sequences, std::int64_t context_length,
                                   KvPool& pool, View q, View out) {
  in_order_.take(dtype_, {2 * KvPool::pages_for(context_length) * kKvPageTokens, shape_.kv_size()});
  const PagedShape shape = paged_shape(pool, sequences, decode_room(context_length));
  const Tensor nothing(DType::i32, {shape.sequences * (shape.pages_each + 1)}, memory_);
  const std::span<const std::int32_t> numbers = nothing.view().span<std::int32_t>();
  attention_decode_paged(context, shape, q, pool.keys(0), pool.values(0),
                         numbers.last(numbers.size() - static_cast<std::size_t>(shape.sequences)),
                         numbers.first(static_cast<std::size_t>(shape.sequences)), out);
}

}  // namespace longhaul
