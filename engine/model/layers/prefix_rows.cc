#include "engine/model/layers/prefix_rows.h"

#include "engine/model/layers/parallel_linear.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/ops/pointwise/row_blocks.h"

namespace longhaul {

PrefixRows::PrefixRows(const ParameterStore& parameters, int layer, std::int64_t queries, std::int64_t keys)
    : parameters_(parameters),
      rows_(parameters.shape().virtual_keys ? parameters.shape().virtual_tokens : 0),
      vocabulary_(parameters.shape().vocab_size),
      queries_(queries),
      keys_(keys) {
  if (rows_ == 0) return;
  at_[0] = parameters.layout().find(prefix_keys_name(parameters.shape(), layer)).begin;
  at_[1] = parameters.layout().find(prefix_values_name(parameters.shape(), layer)).begin;
}

template <class Use>
void PrefixRows::for_each_run(const MicroBatch& batch, const Use& use) const {
  const std::int64_t tokens = batch.tokens();
  const std::span<const std::int32_t> ids = batch.host_ids.empty() ? batch.ids : batch.host_ids;
  const auto row_of = [&](std::int64_t token) { return ids[static_cast<std::size_t>(token)] - vocabulary_; };
  for (std::int64_t token = 0; token < tokens;) {
    const std::int64_t row = row_of(token);
    std::int64_t count = 1;
    while (row >= 0 && token + count < tokens && row_of(token + count) == row + count) ++count;
    if (row >= 0) use(token, row, count);
    token += count;
  }
}

void PrefixRows::put(const ComputeContext& context, const MicroBatch& batch, View qkv) const {
  if (rows_ == 0) return;
  for (const int half : {0, 1}) {
    const ConstView own = parameters_.weight(at_[half], rows_, keys_);
    for_each_run(batch, [&](std::int64_t token, std::int64_t row, std::int64_t count) {
      copy_rows(context, {count, keys_, keys_, queries_ + 2 * keys_}, own.rows(row, row + count),
                columns_of(qkv.rows(token, token + count), count, queries_ + half * keys_, keys_));
    });
  }
}

// Keys become 0 while the sums of values still are, and values then take the zeros of the keys beside them.
void PrefixRows::take_gradient(const ComputeContext& context, const MicroBatch& batch,
                               const BlockGradients& gradients) const {
  if (rows_ == 0) return;
  const std::int64_t width = queries_ + 2 * keys_;
  const View zeros = gradients.prefix.rows(rows_, 2 * rows_);
  fill(context, gradients.prefix, 0.0F);
  const auto columns = [&](std::int64_t token, std::int64_t count, std::int64_t half) {
    return columns_of(gradients.qkv.rows(token, token + count), count, queries_ + half * keys_, keys_);
  };
  const auto add_up = [&](std::int64_t token, std::int64_t row, std::int64_t count, std::int64_t half) {
    add_rows(context, {count, keys_, width, keys_}, columns(token, count, half),
             gradients.prefix.span<float>().subspan(static_cast<std::size_t>((half * rows_ + row) * keys_)));
  };
  for_each_run(batch, [&](std::int64_t token, std::int64_t row, std::int64_t count) {
    add_up(token, row, count, 0);
    copy_rows(context, {count, keys_, keys_, width}, zeros.rows(0, count), columns(token, count, 0));
  });
  for_each_run(batch, [&](std::int64_t token, std::int64_t row, std::int64_t count) {
    add_up(token, row, count, 1);
    copy_rows(context, {count, keys_, width, width}, columns(token, count, 0), columns(token, count, 1));
  });
}

void PrefixRows::backward_weight(const ComputeContext& context, const BlockGradients& gradients,
                                 const GradientTarget& target) const {
  if (rows_ == 0) return;
  for (const int half : {0, 1}) {
    const std::int64_t begin = at_[half], end = begin + rows_ * keys_;
    const View own = gradients.prefix.rows(half * rows_, (half + 1) * rows_);
    if (target.wants(begin, end)) {
      const View out = target.matrix(begin, rows_, keys_);
      target.overwrite ? cast(context, own, out) : add(context, out, own, out);
    }
    target.say_ready(begin, end);
  }
}

}  // namespace longhaul
