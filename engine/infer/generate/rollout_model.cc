#include "engine/infer/generate/rollout_model.h"

#include <algorithm>

#include "engine/infer/generate/generator.h"

namespace longhaul {

RolloutModel::RolloutModel(const ComputeContext& context, const Tokenizer& tokenizer, const ModelShape& shape,
                           TextModelInfo info, InferenceRanks ranks)
    : context_(context), tokenizer_(tokenizer), shape_(shape), info_(std::move(info)), ranks_(std::move(ranks)) {
  info_.vocabulary = shape.vocab_size;
  info_.draws = info_.draws_logprobs = info_.draws_each = context.device() != nullptr;
  info_.copies = info_.forgets = true;
}

InferenceLoad RolloutModel::load_for(std::int64_t slots, std::int64_t context_length, std::int64_t before,
                                     std::int64_t draft_tokens) {
  InferenceLoad load;
  load.in_pages = true, load.sequences = slots, load.context_length = before + context_length;
  load.guessed_rows =
      std::min(slots * draft_tokens, std::max<std::int64_t>(0, GeneratorLimits().decode_tokens - slots));
  load.logits_rows = load.decode_rows();
  load.tokens_max = std::max({load.decode_rows(), before, std::min(prefill_tokens, slots * context_length)});
  return load;
}

void RolloutModel::begin(InferenceWeights weights, int slots, std::int64_t context_length, bool keeps,
                         std::int64_t draft_tokens) {
  end();
  info_.slots = slots, info_.keeps = keeps;
  held_.resize(static_cast<std::size_t>(slots));
  model_.emplace(shape_, std::move(weights), ranks_);
  LH_ASSERT(model_->device() == context_.device(), "weights on another device than what computes with them");
  if (model_->device() != nullptr) {
    const InferenceLoad load = load_for(slots, context_length, shape_.virtual_tokens, draft_tokens);
    pool_ = model_->make_pool(slots * KvPool::pages_for(load.context_length));
    model_->take_scratch(context_, load, *pool_);
  }
  for (int slot = 0; slot < slots; ++slot)
    caches_.push_back(pool_ ? KvCache(*pool_) : model_->make_cache(context_length));
  if (pool_) draws_.emplace(context_, *model_, caches_);
}

void RolloutModel::end() {
  draws_.reset();
  held_.clear(), caches_.clear();
  pool_.reset();
  model_.reset();
}

Result<std::vector<std::int32_t>> RolloutModel::encode_chat(const std::vector<ChatMessage>&, const Value&) const {
  return make_error(ErrorCode::unsupported, "prompts of rollouts come as tokens");
}

std::string RolloutModel::token_bytes(std::int32_t token) const {
  return tokenizer_.is_special(token) ? std::string() : std::string(tokenizer_.token_bytes(token));
}

void RolloutModel::reset(int slot) {
  KvCache& cache = caches_[static_cast<std::size_t>(slot)];
  pool_ ? static_cast<void>(cache.reserve(0)) : cache.truncate(0);
  held_[static_cast<std::size_t>(slot)].clear();
  if (draws_) draws_->reset(slot);
}

// What stands before a text comes with it, or is read with it where no whole page of the text does.
std::int64_t RolloutModel::copy_beginning(int from, int to, std::int64_t tokens) {
  const auto source = static_cast<std::size_t>(from), target = static_cast<std::size_t>(to);
  const std::int64_t before = shape_.virtual_tokens;
  const std::int64_t copied = caches_[target].copy_beginning(caches_[source], tokens + before) - before;
  if (copied <= 0) return caches_[target].truncate(0), 0;
  held_[target].assign(held_[source].begin(), held_[source].begin() + copied);
  return copied;
}

void RolloutModel::forget_last(int slot, std::int64_t tokens) {
  KvCache& cache = caches_[static_cast<std::size_t>(slot)];
  std::vector<std::int32_t>& held = held_[static_cast<std::size_t>(slot)];
  held.resize(held.size() - static_cast<std::size_t>(tokens));
  held.empty() ? cache.truncate(0) : cache.truncate(cache.length() - tokens);
}

Status RolloutModel::compute_logits(std::span<const TextStep> steps, std::vector<float>& logits) {
  for (const auto& [wanted, of_model] :
       {std::pair{TextStep::Logits::none, LogitsWanted::none}, std::pair{TextStep::Logits::all, LogitsWanted::all},
        std::pair{TextStep::Logits::last, LogitsWanted::last}}) {
    std::vector<SequenceStep> some;
    std::size_t rows = 0;
    for (const TextStep& step : steps) {
      LH_ASSERT(step.wanted != TextStep::Logits::all || rows == 0 || wanted != TextStep::Logits::last,
                "answers' rows of logits come before those of prompts");
      if (step.wanted != wanted) continue;
      some.push_back({&caches_[static_cast<std::size_t>(step.slot)], step.tokens});
      if (wanted != TextStep::Logits::none) rows += wanted == TextStep::Logits::all ? step.tokens.size() : 1;
    }
    if (some.empty()) continue;
    const std::size_t before = logits.size();
    logits.resize(before + rows * static_cast<std::size_t>(info_.vocabulary));
    LH_CHECK(model_->forward(context_, some, of_model, std::span<float>(logits).subspan(before)));
  }
  return {};
}

Status RolloutModel::forward(std::span<const TextStep> steps, std::vector<float>& logits,
                             std::vector<std::int32_t>& drawn) {
  drawn.assign(steps.size(), -1);
  logits.clear();
  LH_CHECK(draws_ ? draws_->draw(steps, drawn) : compute_logits(steps, logits));
  for (const TextStep& step : steps) {
    std::vector<std::int32_t>& held = held_[static_cast<std::size_t>(step.slot)];
    held.insert(held.end(), step.tokens.begin(), step.tokens.end());
  }
  return {};
}

namespace {

Status score_on_device(const ComputeContext& context, InferenceModel& model, KvCache& cache,
                       std::span<const std::int32_t> ids, std::size_t first, bool read, std::span<double> out) {
  const auto piece = static_cast<std::size_t>(scored_at_once);
  for (std::size_t at = read ? first - 1 : 0; at + 1 < first;) {
    const std::size_t count = std::min(piece, first - 1 - at);
    const SequenceStep before{&cache, ids.subspan(at, count)};
    LH_CHECK(model.forward(context, {&before, 1}, LogitsWanted::none, {}));
    at += count;
  }
  for (std::size_t at = first; at < ids.size();) {
    const std::size_t count = std::min(piece, ids.size() - at);
    LH_CHECK(model.score(context, {&cache, ids.subspan(at - 1, count)}, ids.subspan(at, count),
                         out.subspan(at - first, count)));
    at += count;
  }
  return {};
}

}  // namespace

Status score_tokens(const ComputeContext& context, InferenceModel& model, KvCache& cache,
                    std::span<const std::int32_t> ids, std::size_t first, bool read, std::span<double> out) {
  const auto vocabulary = static_cast<std::size_t>(model.shape().vocab_size);
  cache.truncate(read ? static_cast<std::int64_t>(first) - 1 : 0);
  if (model.device() != nullptr) return score_on_device(context, model, cache, ids, first, read, out);
  const SequenceStep before{&cache, ids.first(first - 1)}, rest{&cache, ids.subspan(first - 1, ids.size() - first)};
  if (first > 1 && !read) LH_CHECK(model.forward(context, {&before, 1}, LogitsWanted::none, {}));
  if (ids.size() == first) return {};
  std::vector<float> logits(rest.tokens.size() * vocabulary);
  LH_CHECK(model.forward(context, {&rest, 1}, LogitsWanted::all, logits));
  for (std::size_t t = 0; t < rest.tokens.size(); ++t)
    out[t] = logprobs_of(std::span<const float>(logits).subspan(t * vocabulary, vocabulary), ids[first + t], 0)
                 .chosen.logprob;
  return {};
}

}  // namespace longhaul
