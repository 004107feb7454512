#include "engine/train/step/sequence_scores.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/text/text.h"
#include "engine/core/tensor/transfer.h"
#include "engine/train/step/batch_source.h"

namespace longhaul {

namespace {

// Inputs are all tokens but the last, targets the scored ones of the next; the rest of the row is padding that nobody
// sees.
void fill_row(const ScoreRequest& request, std::int64_t row, BatchStorage& batch) {
  const std::size_t begin = static_cast<std::size_t>(row * batch.length);
  for (std::size_t i = 0; i + 1 < request.ids.size(); ++i) {
    batch.ids[begin + i] = request.ids[i];
    if (request.mask[i + 1]) batch.targets[begin + i] = request.ids[i + 1];
  }
}

// Whether each scored token of a row has the largest logit, the first among equals.
bool is_most_likely(const ComputeContext& context, Llama& model, const BatchStorage& batch, std::int64_t row) {
  const auto first = batch.targets.begin() + row * batch.length, end = first + batch.length;
  const auto scored = [](std::int32_t target) { return target >= 0; };
  const auto from = std::find_if(first, end, scored);
  if (from == end) return true;
  const auto to = std::find_if(std::make_reverse_iterator(end), std::make_reverse_iterator(from), scored).base();
  const auto vocabulary = static_cast<std::size_t>(model.shape().vocab_size);
  const std::int64_t begin = from - batch.targets.begin(), rows = to - from;
  MemoryAccount place;
  place.device = context.device();
  Tensor logits(DType::f32, Shape{rows, model.shape().vocab_size}, &place);
  model.logits(context, 0, begin, begin + rows, logits.view());
  std::vector<float> values(static_cast<std::size_t>(rows) * vocabulary);
  copy_out(context, logits.view(), View(values.data(), Shape{rows, model.shape().vocab_size}));
  for (auto target = from; target != to; ++target) {
    if (*target < 0) continue;
    const auto* const at = values.data() + static_cast<std::size_t>(target - from) * vocabulary;
    if (std::max_element(at, at + vocabulary) - at != *target) return false;
  }
  return true;
}

}  // namespace

Result<std::vector<SequenceScore>> score_sequences(const ComputeContext& context, Llama& model, std::int64_t tokens_max,
                                                   std::span<const ScoreRequest> requests,
                                                   const std::function<void(std::size_t)>& progress) {
  std::vector<SequenceScore> scores(requests.size());
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return requests[a].ids.size() > requests[b].ids.size(); });
  BatchStorage batch;
  std::vector<float> loss;
  for (std::size_t at = 0; at < order.size();) {
    // The longest comes first; a few lengths only, so that compiled products are found again.
    const auto longest = static_cast<std::int64_t>(requests[order[at]].ids.size()) - 1;
    if (longest < 1) break;  // nothing to score in what is left
    batch.length = std::min(tokens_max, (longest + 31) / 32 * 32);
    batch.length = std::min(batch.length, std::max(longest, model.shape().max_position_embeddings));
    const auto rows = static_cast<std::int64_t>(
        std::min<std::size_t>(static_cast<std::size_t>(tokens_max / batch.length), order.size() - at));
    if (longest > batch.length)
      return make_error(
          ErrorCode::invalid_input,
          format("a sequence of {} tokens is longer than the {} the model can take at once", longest, tokens_max));
    batch.sequences = rows;
    const auto tokens = static_cast<std::size_t>(rows * batch.length);
    batch.ids.assign(tokens, 0), batch.targets.assign(tokens, -1), loss.assign(tokens, 0.0F);
    for (std::int64_t row = 0; row < rows; ++row)
      fill_row(requests[order[at + static_cast<std::size_t>(row)]], row, batch);
    LH_CHECK(model.check(batch.view()));
    model.forward(context, 0, batch.view());
    model.token_losses(context, 0, loss);
    for (std::int64_t row = 0; row < rows; ++row) {
      SequenceScore& score = scores[order[at + static_cast<std::size_t>(row)]];
      for (std::int64_t i = row * batch.length; i < (row + 1) * batch.length; ++i) {
        if (batch.targets[static_cast<std::size_t>(i)] < 0) continue;
        score.log_probability -= static_cast<double>(loss[static_cast<std::size_t>(i)]);
        ++score.tokens;
      }
      if (requests[order[at + static_cast<std::size_t>(row)]].compare)
        score.most_likely = is_most_likely(context, model, batch, row);
    }
    at += static_cast<std::size_t>(rows);
    if (progress) progress(at);
  }
  return scores;
}

}  // namespace longhaul
