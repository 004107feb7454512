#include "engine/train/step/sequence_scores.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/text/text.h"
#include "engine/core/tensor/transfer.h"

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

void add_losses(const BatchStorage& batch, std::int64_t row, std::span<const float> loss, SequenceScore& score) {
  for (std::int64_t i = row * batch.length; i < (row + 1) * batch.length; ++i) {
    if (batch.targets[static_cast<std::size_t>(i)] < 0) continue;
    score.log_probability -= static_cast<double>(loss[static_cast<std::size_t>(i)]);
    ++score.tokens;
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
    batch.length = std::min(batch.length, std::max(longest, model.length_max()));
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
      add_losses(batch, row, loss, score);
      if (requests[order[at + static_cast<std::size_t>(row)]].compare)
        score.most_likely = is_most_likely(context, model, batch, row);
    }
    at += static_cast<std::size_t>(rows);
    if (progress) progress(at);
  }
  return scores;
}

// A stage's output must stay as it is until the next one has it, and there is a slot only: what is on its way from a
// micro-batch before is waited for first. The last stage's losses come when all others have sent theirs.
Status losses_of_replica(const ComputeContext& context, const ReplicaModel& model, const BatchStorage& batch,
                         std::span<float> losses) {
  Llama& last = *model.stages.back();
  BatchStorage own = batch;
  if (last.context_shard().splits()) keep_context_shard(last.context_shard(), own);
  LH_CHECK(model.mesh.whole().agree(model.stages.front()->check(own.view())));
  std::vector<float> own_losses(losses.size() / static_cast<std::size_t>(last.context_shard().ranks()));
  for (Llama* stage : model.stages) stage->finish_sends();
  for (Llama* stage : model.stages) stage->forward(context, 0, own.view());
  last.token_losses(context, 0, own_losses);
  last.whole_losses(own.sequences, own_losses, losses);
  for (Llama* stage : model.stages) stage->finish_sends();
  for (const Llama* stage : model.stages) LH_CHECK(stage->status());
  CollectiveGroup& pipeline = model.mesh.pipeline();
  return pipeline.broadcast(losses, pipeline.size() - 1);
}

Result<std::vector<double>> score_by_replica(const ComputeContext& context, const ReplicaModel& model,
                                             std::span<const ScoreRequest> requests) {
  const auto rows = static_cast<std::size_t>(model.sequences);
  const std::size_t tokens = rows * static_cast<std::size_t>(model.length);
  BatchStorage batch;
  batch.sequences = model.sequences, batch.length = model.length;
  std::vector<double> scores;
  std::vector<float> loss(tokens);
  for (std::size_t at = 0; at < requests.size(); at += rows) {
    const std::size_t end = std::min(requests.size(), at + rows);
    batch.ids.assign(tokens, 0), batch.targets.assign(tokens, no_target);
    for (std::size_t i = at; i < end; ++i) {
      LH_ASSERT(std::ssize(requests[i].ids) <= model.length + 1, format("{} tokens", requests[i].ids.size()));
      fill_row(requests[i], static_cast<std::int64_t>(i - at), batch);
    }
    LH_CHECK(losses_of_replica(context, model, batch, loss));
    for (std::size_t i = at; i < end; ++i) {
      SequenceScore score;
      add_losses(batch, static_cast<std::int64_t>(i - at), loss, score);
      scores.push_back(score.log_probability);
    }
  }
  return scores;
}

}  // namespace longhaul
