#include "engine/model/token_embedding.h"

#include "engine/ops/pointwise/elementwise.h"
#include "engine/ops/pointwise/embedding.h"

namespace longhaul {

TokenEmbedding::TokenEmbedding(const ParameterStore& parameters, TensorParallel& tensor, Activations& activations,
                               StageBatches& batches)
    : parameters_(parameters),
      tensor_(tensor),
      activations_(activations),
      batches_(batches),
      table_(parameters, embedding_name(parameters.shape())),
      hidden_(parameters.shape().hidden_size),
      places_(parameters.shape().max_position_embeddings) {
  if (parameters.shape().is_gpt2()) positions_ = parameters.layout().find("transformer.wpe.weight").begin;
}

// Of split tables one rank has a token's row, the others zeros: the sum is exact.
void TokenEmbedding::embed_tokens(const ComputeContext& context, const MicroBatch& batch, View out) {
  const std::int64_t t = batch.tokens(), h = hidden_;
  const ConstView table = parameters_.weight(table_.begin, table_.rows, h);
  if (!tensor_.splits()) return embedding_forward(context, {t, table_.rows, h}, batch.ids, table, out);
  const View found = first_rows(activations_.workspace().full, t);
  const View partial = first_rows(activations_.workspace().partial, t);
  embedding_forward(context, {t, table_.rows, h}, context.device() ? batch.ids : batches_.local_ids(batch), table,
                    found);
  cast(context, found, partial);
  tensor_.sum_rows(context, partial, activations_.workspace().landing, t, h, out);
}

void TokenEmbedding::forward(const ComputeContext& context, const MicroBatch& batch, View out) {
  embed_tokens(context, batch, out);
  if (positions_ < 0) return;
  const std::int64_t t = batch.tokens(), r = tensor_.rows(t);
  const View found = first_rows(activations_.workspace().branch, r);
  embedding_forward(
      context, {r, places_, hidden_},
      batches_.positions_of(batch).subspan(static_cast<std::size_t>(tensor_.first_row(t)), static_cast<std::size_t>(r)),
      parameters_.weight(positions_, places_, hidden_), found);
  add(context, out, found, out);
}

void TokenEmbedding::backward_weight(const ComputeContext& context, const MicroBatch& batch, View dx,
                                     const GradientTarget& target) {
  if (!target.wants(table_.begin)) return;
  const std::int64_t h = hidden_;
  const View all = all_rows(tensor_, activations_, dx, batch.tokens(), h);
  embedding_backward(context, {batch.tokens(), table_.rows, h},
                     context.device() ? batch.ids : batches_.local_ids(batch), all,
                     target.vector(table_.begin, table_.rows * h));
  if (positions_ >= 0) {
    embedding_backward(context, {batch.tokens(), places_, h}, batches_.positions_of(batch), all,
                       target.vector(positions_, places_ * h));
    target.say_ready(positions_, positions_ + places_ * h);
  }
  target.say_ready(table_.begin, table_.begin + table_.rows * h);
}

void TokenEmbedding::clear(const ComputeContext& context, const GradientTarget& target, bool tokens) const {
  if (tokens) target.clear(context, table_.begin, table_.begin + table_.rows * hidden_);
  if (positions_ >= 0) target.clear(context, positions_, positions_ + places_ * hidden_);
}

}  // namespace longhaul
