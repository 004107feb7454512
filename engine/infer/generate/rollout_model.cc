#include "engine/infer/generate/rollout_model.h"

#include <algorithm>

namespace longhaul {

RolloutModel::RolloutModel(const ComputeContext& context, const Tokenizer& tokenizer, const ModelShape& shape,
                           TextModelInfo info)
    : context_(context), tokenizer_(tokenizer), shape_(shape), info_(std::move(info)) {
  info_.vocabulary = shape.vocab_size;
  info_.copies = info_.forgets = true;
}

void RolloutModel::begin(InferenceWeights weights, int slots, std::int64_t context_length) {
  end();
  info_.slots = slots;
  model_ = std::make_unique<InferenceModel>(shape_, std::move(weights));
  for (int slot = 0; slot < slots; ++slot) caches_.push_back(model_->make_cache(context_length));
}

void RolloutModel::end() {
  caches_.clear();
  model_.reset();
}

Result<std::vector<std::int32_t>> RolloutModel::encode_chat(const std::vector<ChatMessage>&, const Value&) const {
  return make_error(ErrorCode::unsupported, "prompts of rollouts come as tokens");
}

std::string RolloutModel::token_bytes(std::int32_t token) const {
  return tokenizer_.is_special(token) ? std::string() : std::string(tokenizer_.token_bytes(token));
}

void RolloutModel::copy_beginning(int from, int to, std::int64_t tokens) {
  caches_[static_cast<std::size_t>(to)].copy_beginning(caches_[static_cast<std::size_t>(from)], tokens);
}

void RolloutModel::forget_last(int slot, std::int64_t tokens) {
  KvCache& cache = caches_[static_cast<std::size_t>(slot)];
  cache.truncate(cache.length() - tokens);
}

Status RolloutModel::forward(std::span<const TextStep> steps, std::vector<float>& logits,
                             std::vector<std::int32_t>& drawn) {
  drawn.assign(steps.size(), -1);
  logits.clear();
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

Status score_tokens(const ComputeContext& context, InferenceModel& model, KvCache& cache,
                    std::span<const std::int32_t> ids, std::size_t first, bool read, std::span<double> out) {
  const auto vocabulary = static_cast<std::size_t>(model.shape().vocab_size);
  cache.truncate(read ? static_cast<std::int64_t>(first) - 1 : 0);
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
