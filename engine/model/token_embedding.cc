#include "engine/model/token_embedding.h"

#include "engine/ops/pointwise/elementwise.h"
#include "engine/ops/pointwise/embedding.h"

namespace longhaul {

TokenEmbedding::TokenEmbedding(const ParameterStore& parameters, TensorParallel& tensor, Activations& activations,
                               StageBatches& batches, bool output_here)
    : parameters_(parameters),
      tensor_(tensor),
      activations_(activations),
      batches_(batches),
      table_(parameters, embedding_name(parameters.shape())),
      hidden_(parameters.shape().hidden_size),
      places_(parameters.shape().max_position_embeddings),
      prompt_size_(parameters.shape().virtual_keys ? 0 : parameters.shape().virtual_tokens),
      follows_output_(output_here && parameters.shape().tie_word_embeddings) {
  if (parameters.shape().is_gpt2()) positions_ = parameters.layout().find("transformer.wpe.weight").begin;
  if (prompt_size_ > 0) prompt_ = parameters.layout().find(prompt_name).begin;
}

std::span<const std::int32_t> TokenEmbedding::ids_of(const ComputeContext& context, const MicroBatch& batch) const {
  return context.device() ? batch.ids : batches_.local_ids(batch);
}

std::span<const std::int32_t> TokenEmbedding::prompt_rows_of(const ComputeContext& context,
                                                             const MicroBatch& batch) const {
  return context.device() ? batch.prompt_rows : batches_.prompt_rows(batch);
}

// Of split tables one rank has a token's row, the others zeros: the sum is exact.
void TokenEmbedding::embed_tokens(const ComputeContext& context, const MicroBatch& batch, View out) {
  const std::int64_t t = batch.tokens(), h = hidden_;
  const ConstView table = parameters_.weight(table_.begin, table_.rows, h);
  if (!tensor_.splits()) return embedding_forward(context, {t, table_.rows, h}, ids_of(context, batch), table, out);
  const View found = first_rows(activations_.workspace().full, t);
  const View partial = first_rows(activations_.workspace().partial, t);
  embedding_forward(context, {t, table_.rows, h}, ids_of(context, batch), table, found);
  cast(context, found, partial);
  tensor_.sum_rows(context, partial, activations_.workspace().landing, t, h, out);
}

void TokenEmbedding::add_rows_of(const ComputeContext& context, std::int64_t begin, std::int64_t table_rows,
                                 std::span<const std::int32_t> rows, View out) {
  const auto t = static_cast<std::int64_t>(rows.size()), r = tensor_.rows(t);
  const View found = first_rows(activations_.workspace().branch, r);
  embedding_forward(context, {r, table_rows, hidden_},
                    rows.subspan(static_cast<std::size_t>(tensor_.first_row(t)), static_cast<std::size_t>(r)),
                    parameters_.weight(begin, table_rows, hidden_), found);
  add(context, out, found, out);
}

void TokenEmbedding::forward(const ComputeContext& context, const MicroBatch& batch, View out) {
  embed_tokens(context, batch, out);
  if (prompt_ >= 0) add_rows_of(context, prompt_, prompt_size_, prompt_rows_of(context, batch), out);
  if (positions_ >= 0) add_rows_of(context, positions_, places_, batches_.positions_of(batch), out);
}

// Cleared where they are written and not before the pass: the memory of an adapter's gradient has been another unit's
// meanwhile.
void TokenEmbedding::backward_weight(const ComputeContext& context, const MicroBatch& batch, View dx,
                                     const GradientTarget& target) {
  const bool of_table = target.wants(table_.begin), of_prompt = prompt_ >= 0 && target.wants(prompt_);
  const bool of_positions = positions_ >= 0 && target.wants(positions_);
  if (!of_table && !of_prompt && !of_positions) return;
  const View all = all_rows(tensor_, activations_, dx, batch.tokens(), hidden_);
  if (of_prompt) backward_prompt(context, batch, all, target);
  if (of_positions) backward_positions(context, batch, all, target);
  if (of_table) backward_table(context, batch, all, target);
}

void TokenEmbedding::backward_table(const ComputeContext& context, const MicroBatch& batch, View all,
                                    const GradientTarget& target) {
  const std::int64_t end = table_.begin + table_.rows * hidden_;
  if (target.overwrite && !follows_output_) target.clear(context, table_.begin, end);
  embedding_backward(context, {batch.tokens(), table_.rows, hidden_}, ids_of(context, batch), all,
                     target.vector(table_.begin, end - table_.begin));
  target.say_ready(table_.begin, end);
}

void TokenEmbedding::backward_positions(const ComputeContext& context, const MicroBatch& batch, View all,
                                        const GradientTarget& target) {
  const std::int64_t end = positions_ + places_ * hidden_;
  if (target.overwrite) target.clear(context, positions_, end);
  embedding_backward(context, {batch.tokens(), places_, hidden_}, batches_.positions_of(batch), all,
                     target.vector(positions_, end - positions_));
  target.say_ready(positions_, end);
}

void TokenEmbedding::backward_prompt(const ComputeContext& context, const MicroBatch& batch, View all,
                                     const GradientTarget& target) {
  const std::int64_t end = prompt_ + prompt_size_ * hidden_;
  if (target.overwrite) target.clear(context, prompt_, end);
  if (tensor_.rank() == 0)
    embedding_backward(context, {batch.tokens(), prompt_size_, hidden_}, prompt_rows_of(context, batch), all,
                       target.vector(prompt_, end - prompt_));
  target.say_ready(prompt_, end);
}

}  // namespace longhaul
