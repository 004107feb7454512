#include "engine/tasks/stages/rollout_stage.h"

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/settings/stages/alignment.h"
#include "engine/model/store/model_folder.h"
#include "engine/tasks/rollouts/rollout_source.h"

namespace longhaul {

namespace {

Result<TokenizedPrompts> read_prompt_file(TaskRun& run, const std::string& input, const std::vector<std::string>& names,
                                          const ChatEncoder& encoder, const AlignSettings& settings,
                                          const RewardFunction& reward) {
  LH_TRY(const std::string path, run.task.input_path(input));
  LH_TRY(const std::string file, find_data_file(path, names));
  LH_TRY(std::vector<PromptExample> examples, read_prompts(file, reward.needs_answer(), settings.ignore));
  // A row of sequence_length holds a token less than prompt and answer have together: the last is a target only.
  LH_TRY(TokenizedPrompts prompts, tokenize_prompts(std::move(examples), encoder,
                                                    settings.sequence_length + 1 - settings.rollout.max_new_tokens));
  if (prompts.too_long > 0)
    run.events.message("warn",
                       format("{} prompts of {} leave no room for an answer of {} tokens in sequence_length = "
                              "{} and were left out",
                              prompts.too_long, file, settings.rollout.max_new_tokens, settings.sequence_length));
  return prompts;
}

Status refuse_rollouts(const TaskRun& run, const AlignSettings& settings, const ModelShape& shape) {
  const auto refuse = [&](const std::string& what, const std::string& hint) {
    return make_error(ErrorCode::unsupported, format("method = \"{}\" {}", settings.method, what), hint);
  };
  if (run.gpu != nullptr)
    return refuse("generates its answers on processors in this version, and this stage has GPUs",
                  "set device = \"cpu\"");
  if (shape.is_moe()) return refuse("with a model that has experts is not part of this version", "use a dense model");
  const std::int64_t share = settings.rollout.group_size * run.group.size();
  if (settings.global_batch_size % share == 0) return {};
  return make_error(ErrorCode::invalid_input,
                    format("global_batch_size = {} is not a multiple of rollout.group_size ({}) * ranks ({}) = {}",
                           settings.global_batch_size, settings.rollout.group_size, run.group.size(), share),
                    format("use {}", std::max<std::int64_t>(1, settings.global_batch_size / share) * share));
}

}  // namespace

Status run_rollouts(TaskRun& run, const AlignSettings& settings) {
  LH_TRY(const std::string model, run.task.input_path("model"));
  LH_TRY(const Tokenizer tokenizer, Tokenizer::load(join_path(model, "tokenizer.json")));
  LH_TRY(const ChatEncoder encoder, ChatEncoder::create(tokenizer, model));
  LH_TRY(const HfConfig config, load_model_config(model));
  LH_CHECK(check_vocabulary(tokenizer, config.shape.vocab_size, model));
  LH_CHECK(refuse_rollouts(run, settings, config.shape));
  LH_TRY(const RewardFunction reward, RewardFunction::create(settings.reward));
  LH_TRY(TokenizedPrompts train, read_prompt_file(run, "data", {"prompts-train.jsonl", "prompts.jsonl", "train.jsonl"},
                                                  encoder, settings, reward));
  TrainingStageSettings stage_settings(settings);
  stage_settings.shape = config.shape;
  stage_settings.start_model = stage_settings.tokenizer_folder = model;
  LH_TRY(const std::unique_ptr<TrainingStage> stage, TrainingStage::create(run, stage_settings));
  LH_TRY(const std::unique_ptr<Rollouts> rollouts, Rollouts::create(run, *stage, settings, tokenizer, model, reward));
  std::vector<Figure> figures = {{"prompts", static_cast<double>(train.ids.size()), ""},
                                 {"prompts_too_long", static_cast<double>(train.too_long), ""}};
  RolloutSource source(run, *rollouts, settings, std::move(train));
  std::optional<HeldoutRollouts> heldout;
  if (run.task.input("heldout")) {
    LH_TRY(TokenizedPrompts held,
           read_prompt_file(run, "heldout", {"prompts-heldout.jsonl", "prompts.jsonl", "heldout.jsonl"}, encoder,
                            settings, reward));
    heldout.emplace(*rollouts, settings, std::move(held));
    figures.push_back({"heldout_prompts", static_cast<double>(heldout->samples_per_epoch()), ""});
  }
  PolicyObjective objective(settings, [&](Value& fields) { source.add_metrics(fields); });
  return stage->train(objective, source, heldout ? &*heldout : nullptr, figures);
}

}  // namespace longhaul
