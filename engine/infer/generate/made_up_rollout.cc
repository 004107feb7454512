#include "engine/infer/generate/made_up_rollout.h"

#include "base/digest/philox.h"
#include "engine/model/inference/stored_weights.h"

namespace longhaul {
namespace {

ModelShape made_up_shape(const TimedRollout& sizes) {
  ModelShape shape;
  shape.hidden_size = sizes.hidden, shape.num_hidden_layers = sizes.layers;
  shape.num_attention_heads = sizes.heads, shape.num_key_value_heads = sizes.kv_heads;
  shape.intermediate_size = sizes.feed_forward, shape.vocab_size = sizes.vocabulary;
  shape.max_position_embeddings = sizes.prompt_tokens + sizes.answer_tokens;
  return shape;
}

// No token of them ends an answer.
TextModelInfo made_up_info(const TimedRollout& sizes) {
  TextModelInfo info;
  info.slots = static_cast<int>(sizes.answers), info.context_length = sizes.prompt_tokens + sizes.answer_tokens;
  return info;
}

std::vector<std::vector<std::int32_t>> made_up_texts(const TimedRollout& sizes) {
  std::vector<std::vector<std::int32_t>> texts;
  const auto length = static_cast<std::size_t>(sizes.prompt_tokens + sizes.answer_tokens);
  for (std::int64_t i = 0; i < sizes.answers; ++i) {
    PhiloxSequence of_group(3, static_cast<std::uint64_t>(i / sizes.group)), own(4, static_cast<std::uint64_t>(i));
    std::vector<std::int32_t>& text = texts.emplace_back();
    while (text.size() < length) {
      PhiloxSequence& random = static_cast<std::int64_t>(text.size()) < sizes.prompt_tokens ? of_group : own;
      text.push_back(static_cast<std::int32_t>(random.next_below(static_cast<std::uint64_t>(sizes.vocabulary))));
    }
  }
  return texts;
}

}  // namespace

MadeUpRollout::MadeUpRollout(const ComputeContext& context, const TimedRollout& sizes, const ModelShape& shape,
                             DType dtype)
    : context_(context),
      sizes_(sizes),
      dtype_(dtype),
      store_(shape, dtype),
      texts_(made_up_texts(sizes)),
      model_(context, no_words_, shape, made_up_info(sizes)) {}

Result<InferenceWeights> MadeUpRollout::weights() const {
  InferenceWeights empty;
  empty.dtype = dtype_;
  return inference_weights_of(context_, store_, std::move(empty));
}

Result<std::unique_ptr<MadeUpRollout>> MadeUpRollout::create(const ComputeContext& context, const TimedRollout& sizes,
                                                             DType dtype) {
  LH_TRY(const ModelShape shape, resolve_shape(made_up_shape(sizes)));
  std::unique_ptr<MadeUpRollout> made(new MadeUpRollout(context, sizes, shape, dtype));
  initialize_parameters(context, made->store_, 1);
  made->store_.refresh_compute_copy(context);
  LH_TRY(InferenceWeights weights, made->weights());
  made->reference_ = std::make_unique<InferenceModel>(shape, std::move(weights));
  return made;
}

Result<double> MadeUpRollout::draw(const Clock& clock) {
  std::vector<AnswerRequest> requests;
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    AnswerRequest& request = requests.emplace_back();
    request.prompt = std::span(texts_[i]).first(static_cast<std::size_t>(sizes_.prompt_tokens));
    request.sampling.stream = i;
  }
  AnswerBatchOptions options;
  options.max_tokens = sizes_.answer_tokens, options.prefill_tokens = RolloutModel::prefill_tokens;
  LH_TRY(InferenceWeights drawn_with, weights());
  const std::int64_t begun = clock.monotonic_ns();
  model_.begin(std::move(drawn_with), static_cast<int>(sizes_.answers), sizes_.prompt_tokens + sizes_.answer_tokens);
  const auto answers = generate_answers(model_, clock, requests, options);
  model_.end();
  const double seconds = static_cast<double>(clock.monotonic_ns() - begun) * 1e-9;
  if (!answers.ok()) return answers.error();
  return seconds;
}

Result<double> MadeUpRollout::compare(const Clock& clock) {
  const auto prompt = static_cast<std::size_t>(sizes_.prompt_tokens);
  std::vector<double> scores(static_cast<std::size_t>(sizes_.answer_tokens));
  const std::int64_t begun = clock.monotonic_ns();
  KvCache cache = reference_->make_cache(sizes_.prompt_tokens + sizes_.answer_tokens);
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    const bool read = i % static_cast<std::size_t>(sizes_.group) != 0;
    LH_CHECK(score_tokens(context_, *reference_, cache, texts_[i], prompt, read, scores));
  }
  return static_cast<double>(clock.monotonic_ns() - begun) * 1e-9;
}

}  // namespace longhaul
