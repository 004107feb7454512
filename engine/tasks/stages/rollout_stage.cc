#include "engine/tasks/stages/rollout_stage.h"

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/plan/rollout/drawing_layout.h"
#include "contracts/settings/stages/alignment.h"
#include "contracts/settings/training/feature_table.h"
#include "engine/model/store/model_folder.h"
#include "engine/tasks/drawing/drawing_weights.h"
#include "engine/tasks/rewards/stage_reward.h"
#include "engine/tasks/rollout_ranks/drawing_rank.h"
#include "engine/tasks/rollout_ranks/rollout_ranks.h"
#include "engine/tasks/rollouts/critic.h"
#include "engine/tasks/rollouts/heldout_rollouts.h"
#include "engine/tasks/rollouts/rollout_source.h"
#include "engine/tasks/stages/answer_memory.h"

namespace longhaul {

namespace {

Result<TokenizedPrompts> read_prompt_file(TaskRun& run, const std::string& input, const std::vector<std::string>& names,
                                          const ChatEncoder& encoder, const AlignSettings& settings,
                                          bool needs_answer) {
  LH_TRY(const std::string path, run.task.input_path(input));
  LH_TRY(const std::string file, find_data_file(path, names));
  LH_TRY(std::vector<PromptExample> examples, read_prompts(file, needs_answer, settings.ignore));
  // A row of sequence_length holds a token less than prompt and answer have together: the last is a target only.
  const std::int64_t before = settings.adapter.tokens_before();
  LH_TRY(TokenizedPrompts prompts,
         tokenize_prompts(std::move(examples), encoder,
                          {settings.sequence_length + 1, before, settings.rollout.max_new_tokens}));
  if (prompts.too_long > 0)
    run.events.message("warn", format("{} prompts of {} leave no room for an answer of {} tokens in sequence_length = "
                                      "{} and were left out",
                                      prompts.too_long, file, settings.rollout.max_new_tokens,
                                      TextRoom(settings.sequence_length, before).text()));
  return prompts;
}

Status refuse_rollouts(const TaskRun& run, const AlignSettings& settings, const ModelShape& shape) {
  LH_CHECK(check_rollout_features(settings, shape, run.mesh.dims()));
  const ParallelDims& dims = run.mesh.dims();
  const std::int64_t replicas = dims.dp(), share = settings.rollout.group_size * replicas;
  if (settings.global_batch_size % share == 0) return {};
  return make_error(ErrorCode::invalid_input,
                    format("global_batch_size = {} is not a multiple of rollout.group_size ({}) * {} ({}) = {}",
                           settings.global_batch_size, settings.rollout.group_size,
                           replicas == run.group.size() ? "ranks" : "replicas", replicas, share),
                    format("use {}", std::max<std::int64_t>(1, settings.global_batch_size / share) * share));
}

// A model of steps would take what an environment says for the model's own.
Status check_judge_of_turns(const AlignSettings& settings, const std::string& folder) {
  if (settings.rollout.turns == 1) return {};
  LH_TRY(const RewardForm form, reward_form_of_folder(folder));
  if (form.method != "process") return {};
  return make_error(ErrorCode::unsupported,
                    format("rollout.turns = {} with the reward model {}, which judges steps (method = \"process\"): "
                           "steps of an environment would count as the model's",
                           settings.rollout.turns, folder),
                    "use a reward model of whole answers, or rollout.turns = 1");
}

// What answers are compared with: the folder of the model itself, or of the teacher; "" where that is nothing.
Result<std::string> reference_folder(const TaskRun& run, const AlignSettings& settings, const std::string& model,
                                     const ModelShape& shape) {
  if (!has_teacher(settings.method)) return settings.beta > 0 ? model : std::string();
  LH_TRY(std::string folder, run.task.input_path("teacher"));
  LH_TRY(const HfConfig teacher, load_model_config(folder));
  const char* hint = "take a teacher with the tokenizer of the model that learns";
  LH_CHECK(check_same_tokens("the teacher", folder, model, hint));
  if (teacher.shape.vocab_size != shape.vocab_size)
    return make_error(ErrorCode::invalid_input,
                      format("the teacher {} has a vocabulary of {} tokens, and the model {} one of {}", folder,
                             teacher.shape.vocab_size, model, shape.vocab_size),
                      hint);
  if (settings.sequence_length > teacher.shape.max_position_embeddings)
    return make_error(ErrorCode::invalid_input,
                      format("sequence_length = {} is longer than max_position_embeddings = {} of the teacher {}",
                             settings.sequence_length, teacher.shape.max_position_embeddings, folder),
                      format("use at most {}", teacher.shape.max_position_embeddings));
  LH_CHECK(
      check_drawing_layout(settings.rollout, teacher.shape, run.mesh.dims()).with_context("the teacher " + folder));
  return folder;
}

std::int64_t steps_of(const AlignSettings& settings, std::int64_t prompts) {
  const std::int64_t answers = prompts * settings.rollout.group_size * settings.rollout.epochs;
  return training_steps(settings.steps, settings.epochs, answers, settings.global_batch_size);
}

// Null where the method has none. It begins as the policy does, or as the judge in `judge_folder`.
Result<std::unique_ptr<Critic>> create_critic(TaskRun& run, const AlignSettings& settings, const std::string& model,
                                              const std::string& judge_folder, std::int64_t steps) {
  if (!has_critic(settings.method)) return std::unique_ptr<Critic>();
  const bool as_judge = settings.ppo.critic == "reward";
  LH_TRY(std::unique_ptr<Critic> critic, Critic::create(run, settings, as_judge ? judge_folder : model, steps));
  run.events.message("info", format("the critic begins as {}; a fault ends the ranks, which go on from a checkpoint of "
                                    "both models (no restart in the process)",
                                    as_judge ? "the reward model" : "a copy of the model"));
  return critic;
}

// That ranks which train draw what is theirs with the whole model, though those that only draw hold parts of it.
void report_whole_models(TaskRun& run, const RolloutSettings& rollout, const ModelShape& shape) {
  const std::int64_t together = rollout.tp * rollout.pp;
  const ParallelDims drawing = drawing_dims(rollout, shape, run.mesh.dims());
  if (together == 1 || drawing.tp * drawing.pp == together) return;
  run.events.message("info", format("tp * cp * pp = {} of the training is no multiple of rollout.tp * rollout.pp = {}: "
                                    "each rank that trains holds the whole model while it draws (the first rollout, "
                                    "groups drawn once more, held-out answers)",
                                    drawing.dp_replicate, together));
}

// What has to be said of a training whose steps learn from the same answers, and of one that has a state beside the
// model's.
TrainingStageSettings stage_settings_of(const AlignSettings& settings, const ModelShape& shape,
                                        const std::string& model) {
  TrainingStageSettings stage(settings, settings);
  stage.shape = shape;
  stage.start_model = stage.tokenizer_folder = model;
  stage.leave_out_balance();
  stage.steps_together = settings.rollout.updates(), stage.draws_answers = true;
  if (has_critic(settings.method) || settings.rollout.ahead || settings.rollout.in_parts())
    stage.checkpoint.in_process = false, stage.checkpoint.snapshot_every = 0;
  return stage;
}

// With its folder; null where the reward is none.
Result<std::unique_ptr<RewardModel>> load_judge(TaskRun& run, const AlignSettings& settings, const std::string& model,
                                                std::string& folder) {
  if (settings.reward.kind != "model") return std::unique_ptr<RewardModel>();
  LH_TRY(folder, run.task.input_path("reward"));
  LH_CHECK(check_judge_of_turns(settings, folder));
  const std::int64_t longest = settings.sequence_length + 1 - settings.adapter.tokens_before();
  return RewardModel::load(run, folder, settings.precision, longest, model);
}

// Of the weights that answers are drawn with: the model's with what the adapter has beside them.
ModelShape drawn_shape(const AlignSettings& settings, ModelShape shape) {
  shape.adapter = settings.adapter;
  return frozen_shape(std::move(shape));
}

Result<std::int64_t> answer_bytes_of(const TaskRun& run, const AlignSettings& settings, const ModelShape& shape,
                                     const std::string& model, const std::string& reference) {
  ModelsBeside beside{reference, "", ""};
  if (settings.reward.kind == "model") {
    LH_TRY(beside.judge, run.task.input_path("reward"));
  }
  if (has_critic(settings.method)) beside.critic = settings.ppo.critic == "reward" ? beside.judge : model;
  WeightsHere here{run.mesh.dims(), run.mesh.at(), settings.rollout.ranks > 0 && !run.draws(), std::nullopt};
  if (run.draws()) here.draws_as = run.rollout_ranks->rank() - 1;
  return plan_answer_memory(settings, drawn_shape(settings, shape), Rollouts::dtype_of(settings), here, beside);
}

// On a rank that trains, with `ranks`, or on one that draws, with `drawing`.
Status run_here(TaskRun& run, const AlignSettings& settings, RolloutRanks* ranks, DrawingRank* drawing) {
  LH_TRY(const std::string model, run.task.input_path("model"));
  LH_TRY(const Tokenizer tokenizer, Tokenizer::load(join_path(model, "tokenizer.json")));
  LH_TRY(const ChatEncoder encoder, ChatEncoder::create(tokenizer, model));
  LH_TRY(const HfConfig config, load_model_config(model));
  LH_CHECK(check_vocabulary(tokenizer, config.shape.vocab_size, model));
  LH_CHECK(check_drawing_layout(settings.rollout, config.shape, run.mesh.dims()));
  if (ranks) {
    LH_CHECK(ranks->check());
    LH_CHECK(refuse_rollouts(run, settings, config.shape));
    report_whole_models(run, settings.rollout, config.shape);
  }
  LH_CHECK(check_reward_input(settings, run.task.input("reward") != nullptr));
  LH_CHECK(check_teacher_input(settings, run.task.input("teacher") != nullptr));
  LH_TRY(const std::string reference, reference_folder(run, settings, model, config.shape));
  std::optional<RewardFunction> reward;
  if (!has_teacher(settings.method)) {
    // With rollout.ahead another thread than the rank's asks.
    std::function<void()> between;
    if (!settings.rollout.ahead || drawing) between = [&run] { run.section("reward"); };
    LH_TRY(reward, stage_reward(run, settings.reward, std::move(between)));
  }
  const bool needs_answer = reward && reward->needs_answer();
  LH_TRY(TokenizedPrompts train, read_prompt_file(run, "data", {"prompts-train.jsonl", "prompts.jsonl", "train.jsonl"},
                                                  encoder, settings, needs_answer));
  std::string judge_folder;
  if (drawing) {
    if (run.gpu) {
      LH_TRY(const std::int64_t bytes, answer_bytes_of(run, settings, config.shape, model, reference));
      LH_CHECK(check_drawing_memory(bytes, run.gpu->device()));
    }
    LH_TRY(std::unique_ptr<RewardModel> judge, load_judge(run, settings, model, judge_folder));
    const ModelShape shape = drawn_shape(settings, config.shape);
    DrawingTeam team(*run.rollout_ranks, shape, drawing_ranks_dims(settings.rollout, shape), run.mesh.deadline_ms());
    LH_TRY(const std::unique_ptr<RolloutWorker> worker,
           Rollouts::make_worker(run, settings, {tokenizer, encoder}, shape, model, reference, reward, std::move(judge),
                                 team));
    return drawing->draw(*worker, team, shape, Rollouts::dtype_of(settings), train);
  }
  TrainingStageSettings stage_settings = stage_settings_of(settings, config.shape, model);
  if (run.gpu) {
    LH_TRY(stage_settings.answer_bytes, answer_bytes_of(run, settings, config.shape, model, reference));
  }
  LH_TRY(const std::unique_ptr<TrainingStage> stage, TrainingStage::create(run, stage_settings));
  LH_TRY(std::unique_ptr<RewardModel> judge, load_judge(run, settings, model, judge_folder));
  const std::int64_t steps = steps_of(settings, static_cast<std::int64_t>(train.ids.size()));
  LH_TRY(const std::unique_ptr<Critic> critic, create_critic(run, settings, model, judge_folder, steps));
  if (critic) stage->train_beside(*critic);
  LH_TRY(const std::unique_ptr<Rollouts> rollouts,
         Rollouts::create(run, *stage, settings, {tokenizer, encoder}, model, reference, reward, std::move(judge),
                          ranks->are_there() ? ranks : nullptr));
  std::vector<Figure> figures = {{"prompts", static_cast<double>(train.ids.size()), ""},
                                 {"prompts_too_long", static_cast<double>(train.too_long), ""}};
  RolloutSource source(run, *rollouts, settings, std::move(train), steps, critic.get());
  if (TrainingCompanion* companion = source.companion()) stage->train_beside(*companion);
  std::optional<HeldoutRollouts> heldout;
  if (run.task.input("heldout")) {
    LH_TRY(TokenizedPrompts held,
           read_prompt_file(run, "heldout", {"prompts-heldout.jsonl", "prompts.jsonl", "heldout.jsonl"}, encoder,
                            settings, needs_answer));
    heldout.emplace(*rollouts, settings, std::move(held));
    figures.push_back({"heldout_prompts", static_cast<double>(heldout->samples_per_epoch()), ""});
  }
  AlignSettings of_loss = settings;
  if (critic || has_teacher(settings.method)) of_loss.beta = 0;  // the divergence is in the reward, or the advantage
  PolicyObjective objective(of_loss, [&](Value& fields) { source.add_metrics(fields); });
  if (!heldout) return stage->train(objective, source, nullptr, figures);
  return stage->train(objective, source, &*heldout, figures,
                      [&](std::vector<Figure>& more) { return heldout->add_figures(run.mesh.data(), more); });
}

}  // namespace

Status check_rollout_features(const AlignSettings& settings, const ModelShape& shape, const ParallelDims& dims) {
  EngineCase asked = engine_case_of("align", settings, shape, dims, 0);
  asked.draws_answers = true;
  return check_engine(asked);
}

Status run_rollouts(TaskRun& run, const AlignSettings& settings) {
  if (run.draws()) {
    DrawingRank drawing(run);
    return drawing.end(run_here(run, settings, nullptr, &drawing));
  }
  RolloutRanks ranks(run, settings.rollout);
  return ranks.end(run_here(run, settings, &ranks, nullptr));
}

}  // namespace longhaul
