#include "engine/model/inference/ranks/rank_sums.h"

#include <algorithm>

#include "engine/model/layers/parallel_linear.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/ops/pointwise/row_blocks.h"

namespace longhaul {

void RankSums::take(const ModelShape& shape, DType dtype, std::int64_t tokens, std::int64_t logits_rows) {
  if (!ranks_.split_matrices()) return;
  if (dtype != DType::f32) partial_.take(DType::f32, {tokens, shape.hidden_size});
  columns_.take(DType::f32, {(1 + ranks_.tp()) * logits_rows * ranks_.rows_of_vocabulary(shape.vocab_size)});
}

View RankSums::addend_of(View y) {
  return widens(y) ? partial_.take(DType::f32, y.shape()) : y;
}

void RankSums::add_up(const ComputeContext& context, View addend, View y) {
  if (!ranks_.split_matrices()) return;
  ranks_.sum(addend);
  if (widens(y)) cast(context, addend, y);
}

void RankSums::add_up(const ComputeContext& context, View y) {
  const View addend = addend_of(y);
  if (widens(y)) cast(context, y, addend);
  add_up(context, addend, y);
}

std::int64_t RankSums::block_of(const View& logits) const {
  return logits.shape()[0] * ranks_.rows_of_vocabulary(logits.shape()[1]);
}

View RankSums::blocks_of(const View& logits) {
  return columns_.take(DType::f32, {(1 + ranks_.tp()) * block_of(logits)});
}

View RankSums::columns_of_rank(View logits, std::int64_t count) {
  if (!ranks_.split_matrices()) return logits;
  const std::int64_t rows = logits.shape()[0];
  return blocks_of(logits).rows(0, rows * count).reshaped({rows, count});
}

void RankSums::put_together(const ComputeContext& context, View logits) {
  if (!ranks_.split_matrices()) return;
  const std::int64_t rows = logits.shape()[0], vocab = logits.shape()[1], each = ranks_.rows_of_vocabulary(vocab),
                     block = block_of(logits);
  const View blocks = blocks_of(logits), all = blocks.rows(block, blocks.size());
  ranks_.gather(blocks.rows(0, block), all);
  for (std::int64_t rank = 0; rank < ranks_.tp(); ++rank) {
    const std::int64_t first = rank * each, count = std::min(each, vocab - first);
    copy_rows(context, {rows, count, count, vocab}, elements_from(all, rank * block),
              columns_of(logits, rows, first, count));
  }
}

}  // namespace longhaul
