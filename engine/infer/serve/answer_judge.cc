#include "engine/infer/serve/answer_judge.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "engine/data/rows/step_places.h"
#include "engine/model/store/model_folder.h"
#include "engine/train/step/sequence_rewards.h"

namespace longhaul {

bool is_reward_model(const std::string& folder) {
  const auto config = load_hf_config(join_path(folder, "config.json"));
  return config.ok() && config->shape.scalar_head;
}

Result<std::unique_ptr<AnswerJudge>> AnswerJudge::load(const std::string& folder, const std::string& precision,
                                                       int threads, std::int64_t context_length) {
  LH_TRY(const HfConfig config, load_any_model_config(folder));
  if (!config.shape.scalar_head) return make_error(ErrorCode::invalid_input, folder + " is no reward model");
  LH_TRY(Tokenizer tokenizer, Tokenizer::load(join_path(folder, "tokenizer.json")));
  LH_CHECK(check_vocabulary(tokenizer, config.shape.vocab_size, folder));
  std::unique_ptr<AnswerJudge> judge(new AnswerJudge(std::move(tokenizer), threads));
  LH_TRY(judge->form_, reward_form_of(config.reward_form, join_path(folder, "config.json")));
  LH_TRY(judge->encoder_, ChatEncoder::create(judge->tokenizer_, folder));
  judge->context_length_ = config.shape.text_length_max();
  if (context_length > 0) judge->context_length_ = std::min(judge->context_length_, context_length);
  constexpr std::int64_t tokens_at_once = 4096;
  LlamaOptions options;
  options.training = false, options.length_max = judge->context_length_ + config.shape.virtual_tokens;
  options.tokens_max = judge->tokens_max_ = std::max(options.length_max, tokens_at_once);
  judge->store_ = std::make_unique<ParameterStore>(
      ParameterStore::frozen(config.shape, precision == "bf16" ? DType::bf16 : DType::f32, nullptr, {}));
  LH_CHECK(load_model_weights(judge->compute_, folder, *judge->store_));
  judge->llama_ = std::make_unique<Llama>(*judge->store_, options);
  return judge;
}

Result<std::vector<JudgedAnswer>> AnswerJudge::judge(std::span<const std::vector<ChatMessage>> conversations) {
  std::vector<JudgedTokens> encoded;
  std::vector<std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < conversations.size(); ++i) {
    const std::vector<ChatMessage>& messages = conversations[i];
    const auto wrong = [&](const std::string& what) {
      return make_error(ErrorCode::invalid_input, format("conversation {}: {}", i, what));
    };
    if (const Status fine = check_conversation(messages); !fine.ok()) return wrong(fine.error().what);
    if (messages.back().role != "assistant") return wrong("it does not end with an answer of the assistant");
    LH_TRY(ChatTokens tokens, encoder_->encode(messages));
    JudgedTokens judged = judged_tokens(std::move(tokens));
    if (judged.ids.empty()) return wrong("its answer has no tokens");
    if (static_cast<std::int64_t>(judged.ids.size()) > context_length_)
      return wrong(format("its {} tokens do not fit the model's context of {}", judged.ids.size(), context_length_));
    places.push_back(asked_places(form_, tokenizer_, judged.ids, judged.answer_begin));
    encoded.push_back(std::move(judged));
  }
  std::vector<AskedText> texts;
  for (std::size_t i = 0; i < encoded.size(); ++i) texts.push_back({encoded[i].ids, places[i]});
  const std::lock_guard lock(mutex_);
  LH_TRY(const auto numbers, numbers_at(compute_, *llama_, tokens_max_, texts));
  std::vector<JudgedAnswer> judged;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    JudgedAnswer& answer = judged.emplace_back();
    answer.score = one_reward(form_, numbers[i]), answer.tokens = static_cast<std::int64_t>(texts[i].ids.size());
    for (std::size_t a = 0; a < form_.attributes.size(); ++a)
      answer.attributes.emplace_back(form_.attributes[a].name, numbers[i][a]);
    if (form_.method == "process") answer.steps = step_probabilities(numbers[i]);
  }
  return judged;
}

}  // namespace longhaul
