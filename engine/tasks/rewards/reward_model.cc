#include "engine/tasks/rewards/reward_model.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/settings/training/feature_table.h"
#include "engine/data/rows/step_places.h"
#include "engine/data/template/chat.h"
#include "engine/model/store/model_folder.h"
#include "engine/train/step/sequence_rewards.h"

namespace longhaul {

namespace {

// What a folder makes of a short conversation.
Result<std::vector<std::int32_t>> tokens_of_example(const std::string& folder) {
  const std::vector<ChatMessage> messages = {{"user", "Is 1 + 1 = 2?"}, {"assistant", "Yes, it is."}};
  LH_TRY(const Tokenizer tokenizer, Tokenizer::load(join_path(folder, "tokenizer.json")));
  LH_TRY(const ChatEncoder encoder, ChatEncoder::create(tokenizer, folder));
  LH_TRY(ChatTokens tokens, encoder.encode(messages));
  return std::move(tokens.ids);
}

Status check_judge_on_gpu(const ModelShape& shape) {
  EngineCase asked;
  asked.kind = "evaluate", asked.gpu = true, asked.shape = shape;
  return check_engine(asked).with_context("the reward model");
}

}  // namespace

Status check_same_tokens(const std::string& what, const std::string& folder, const std::string& other,
                         const std::string& hint) {
  LH_TRY(const std::string own, read_file(join_path(folder, "tokenizer.json")));
  LH_TRY(const std::string others, read_file(join_path(other, "tokenizer.json")));
  bool same = own == others;
  if (same) {
    LH_TRY(const std::vector<std::int32_t> mine, tokens_of_example(folder));
    LH_TRY(const std::vector<std::int32_t> theirs, tokens_of_example(other));
    same = mine == theirs;
  }
  if (same) return {};
  return make_error(ErrorCode::invalid_input,
                    format("{} {} and the model {} differ in {}", what, folder, other,
                           own == others ? "how a conversation is written (their chat templates)" : "tokenizer.json"),
                    hint);
}

Result<RewardForm> reward_form_of_folder(const std::string& folder) {
  LH_TRY(const HfConfig config, load_any_model_config(folder));
  return reward_form_of(config.reward_form, join_path(folder, "config.json"));
}

Result<std::unique_ptr<RewardModel>> RewardModel::load(const TaskRun& run, const std::string& folder,
                                                       const std::string& precision, std::int64_t length_max,
                                                       const std::string& judged_folder) {
  LH_TRY(const HfConfig config, load_any_model_config(folder));
  if (!config.shape.scalar_head)
    return make_error(
        ErrorCode::invalid_input, folder + " is no reward model",
        "a stage of the kind reward makes one; its config.json names a class ...ForSequenceClassification");
  LH_CHECK(
      check_same_tokens("the reward model", folder, judged_folder,
                        "train the reward model from the model that it judges, or from one with the same tokenizer"));
  const std::int64_t before = config.shape.virtual_tokens;
  if (length_max > config.shape.text_length_max())
    return make_error(
        ErrorCode::invalid_input,
        format("texts of up to {} tokens are judged by the reward model {}, whose max_position_embeddings is {}{}",
               length_max, folder, config.shape.max_position_embeddings,
               before > 0 ? format(", of which {} stand before every text", before) : ""),
        "use a shorter sequence_length");
  if (run.gpu) LH_CHECK(check_judge_on_gpu(config.shape));
  LlamaOptions options;
  options.training = false, options.length_max = length_max + before;
  options.tokens_max = std::max(options.length_max, judged_at_once);
  LH_TRY(RewardForm form, reward_form_of(config.reward_form, join_path(folder, "config.json")));
  LH_TRY(Tokenizer tokenizer, Tokenizer::load(join_path(folder, "tokenizer.json")));
  std::unique_ptr<RewardModel> model(new RewardModel(options.tokens_max, std::move(form), std::move(tokenizer)));
  model->memory_ = accounts_beside(run);
  options.memory = model->memory_.get();
  model->store_ = std::make_unique<ParameterStore>(
      ParameterStore::frozen(config.shape, precision == "bf16" ? DType::bf16 : DType::f32, options.memory, {}));
  LH_CHECK(load_model_weights(run.compute, folder, *model->store_));
  model->llama_ = std::make_unique<Llama>(*model->store_, options);
  return model;
}

Result<std::vector<double>> RewardModel::rewards(const ComputeContext& context, std::span<const JudgedText> texts,
                                                 const std::function<void()>& says) {
  std::vector<std::vector<std::size_t>> places;
  places.reserve(texts.size());  // they are borrowed
  std::vector<AskedText> asked;
  for (const JudgedText& text : texts) {
    places.push_back(asked_places(form_, tokenizer_, text.ids, text.answer_begin));
    asked.push_back({text.ids, places.back()});
  }
  LH_TRY(const auto numbers, numbers_at(context, *llama_, tokens_max_, asked, [&](std::size_t) { says(); }));
  std::vector<double> rewards;
  for (const std::vector<double>& own : numbers) rewards.push_back(one_reward(form_, own));
  return rewards;
}

}  // namespace longhaul
