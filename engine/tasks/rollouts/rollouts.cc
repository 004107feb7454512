#include "engine/tasks/rollouts/rollouts.h"

#include <algorithm>
#include <cmath>

#include "base/text/text.h"
#include "engine/data/template/end_tokens.h"
#include "engine/tasks/rollouts/shared_rollouts.h"

namespace longhaul {

namespace {

// Of prompts in one step: nobody waits for the next token of an answer.
constexpr std::int64_t rollout_prefill = 1024;

DType computed_in(const AlignSettings& settings) {
  return settings.precision == "bf16" ? DType::bf16 : DType::f32;
}

}  // namespace

Rollouts::Rollouts(TaskRun& run, TrainingStage& stage, const AlignSettings& settings, const Tokenizer& tokenizer,
                   TextModelInfo info, std::optional<RewardFunction> reward)
    : run_(run),
      stage_(stage),
      settings_(settings),
      reward_(std::move(reward)),
      shape_(stage.weights().shape()),
      dtype_(computed_in(settings)),
      weights_(run.mesh),
      model_(run.compute, tokenizer, shape_, std::move(info)) {}

Result<std::unique_ptr<Rollouts>> Rollouts::create(TaskRun& run, TrainingStage& stage, const AlignSettings& settings,
                                                   const Tokenizer& tokenizer, const std::string& model_folder,
                                                   const std::string& reference_folder,
                                                   std::optional<RewardFunction> reward,
                                                   std::unique_ptr<RewardModel> judge) {
  TextModelInfo info;
  LH_TRY(const ModelTokens named, tokens_of_folder(model_folder, tokenizer));
  for (const std::int64_t id : named.ends) info.end_tokens.push_back(static_cast<std::int32_t>(id));
  if (info.end_tokens.empty())
    return make_error(ErrorCode::invalid_input, model_folder + " names no token that ends an answer",
                      "name it in generation_config.json (eos_token_id)");
  info.context_length = settings.sequence_length + 1;
  info.slots = static_cast<int>(settings.rollout.slots);
  std::unique_ptr<Rollouts> made(new Rollouts(run, stage, settings, tokenizer, std::move(info), std::move(reward)));
  made->judge_ = std::move(judge);
  if (!reference_folder.empty()) {
    LH_TRY(InferenceModel reference, InferenceModel::load(reference_folder, made->dtype_));
    made->reference_ = std::make_unique<InferenceModel>(std::move(reference));
  }
  return made;
}

double Rollouts::seconds_of(const std::function<Status()>& phase, Status& done) const {
  const std::int64_t begun = run_.clock.monotonic_ns();
  if (done.ok()) done = phase();
  return static_cast<double>(run_.clock.monotonic_ns() - begun) * 1e-9;
}

Status Rollouts::generate(const TokenizedPrompts& prompts, std::span<const RolloutTask> tasks, InferenceWeights weights,
                          std::vector<Rollout>& rollouts, std::vector<RewardQuestion>& questions) {
  std::vector<AnswerRequest> requests;
  std::size_t longest = 0;
  for (const RolloutTask& task : tasks) {
    requests.push_back({prompts.ids[task.prompt], task.sampling});
    longest = std::max(longest, prompts.ids[task.prompt].size());
  }
  AnswerBatchOptions options;
  options.max_tokens = settings_.rollout.max_new_tokens;
  options.prefill_tokens = rollout_prefill;
  options.draft_tokens = settings_.rollout.speculate == "ngram" ? settings_.rollout.draft_tokens : 0;
  options.between = [&] { run_.section("rollout"); };
  const auto slots = std::min<std::int64_t>(settings_.rollout.slots, static_cast<std::int64_t>(tasks.size()));
  model_.begin(std::move(weights), static_cast<int>(slots), static_cast<std::int64_t>(longest) + options.max_tokens);
  auto answers = generate_answers(model_, run_.clock, requests, options);
  model_.end();
  LH_CHECK(answers);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    GeneratedAnswer& answer = (*answers)[i];
    const std::vector<std::int32_t>& prompt = prompts.ids[tasks[i].prompt];
    Rollout& rollout = rollouts.emplace_back();
    rollout.tokens.ids = prompt;
    rollout.tokens.ids.insert(rollout.tokens.ids.end(), answer.tokens.begin(), answer.tokens.end());
    rollout.tokens.loss_mask.assign(prompt.size(), 0);
    rollout.tokens.loss_mask.resize(rollout.tokens.ids.size(), 1);
    rollout.drawn = std::move(answer.logprobs), rollout.cut = answer.cut;
    rollout.drafted = answer.drafted, rollout.accepted = answer.accepted, rollout.decode_steps = answer.decode_steps;
    const PromptExample& example = prompts.examples[tasks[i].prompt];
    questions.push_back({example.question(), std::move(answer.text), example.answer});
  }
  return {};
}

Status Rollouts::judge(const std::vector<RewardQuestion>& questions, std::vector<Rollout>& rollouts) {
  run_.section("reward");
  if (!judge_ && !reward_) {
    for (Rollout& rollout : rollouts) rollout.reward.value = 0;
    return {};
  }
  if (!judge_) {
    std::vector<Reward> rewards = reward_->judge(questions);
    for (std::size_t i = 0; i < rollouts.size(); ++i) rollouts[i].reward = std::move(rewards[i]);
    return {};
  }
  std::vector<JudgedText> texts;
  for (const Rollout& rollout : rollouts)
    texts.push_back({rollout.tokens.ids, rollout.tokens.ids.size() - rollout.drawn.size()});
  LH_TRY(const std::vector<double> rewards, judge_->rewards(texts));
  for (std::size_t i = 0; i < rollouts.size(); ++i) {
    if (std::isfinite(rewards[i]))
      rollouts[i].reward.value = rewards[i];
    else
      rollouts[i].reward.problem = format("the reward model gives it {}", rewards[i]);
  }
  return {};
}

Status Rollouts::compare(std::vector<Rollout>& rollouts) {
  if (!reference_) return {};
  std::size_t longest = 0;
  for (const Rollout& rollout : rollouts) longest = std::max(longest, rollout.tokens.ids.size());
  KvCache cache = reference_->make_cache(static_cast<std::int64_t>(longest));
  std::span<const std::int32_t> before;  // what the cache begins with
  for (Rollout& rollout : rollouts) {
    run_.section("rollout");
    rollout.reference.resize(rollout.drawn.size());
    const std::span<const std::int32_t> ids = rollout.tokens.ids, prompt = ids.first(ids.size() - rollout.drawn.size());
    const bool same = std::ranges::equal(prompt, before);
    LH_CHECK(score_tokens(run_.compute, *reference_, cache, ids, prompt.size(), same, rollout.reference));
    before = prompt;
  }
  return {};
}

Result<std::vector<Rollout>> Rollouts::answer_here(const TokenizedPrompts& prompts, std::span<const RolloutTask> tasks,
                                                   RolloutTimes& times) {
  std::vector<Rollout> rollouts;
  if (tasks.empty()) return rollouts;
  std::vector<RewardQuestion> questions;
  std::optional<InferenceWeights> weights;
  Status done;
  const auto take = [&]() -> Status {
    LH_TRY(InferenceWeights made, weights_.weights(run_.compute, stage_.weights(), dtype_));
    weights.emplace(std::move(made));
    return {};
  };
  times.reshard += seconds_of(take, done);
  times.generate +=
      seconds_of([&] { return generate(prompts, tasks, std::move(*weights), rollouts, questions); }, done);
  times.reward += seconds_of([&] { return judge(questions, rollouts); }, done);
  times.reference += seconds_of([&] { return compare(rollouts); }, done);
  LH_CHECK(done);
  return rollouts;
}

Result<std::vector<Rollout>> Rollouts::answer(const TokenizedPrompts& prompts, std::span<const RolloutTask> tasks,
                                              std::size_t group, RolloutTimes& times) {
  CollectiveGroup& ranks = run_.mesh.replica();
  Status gathered;
  times.reshard +=
      seconds_of([&] { return weights_.gather(run_.compute, stage_.weights(), stage_.version()); }, gathered);
  LH_CHECK(gathered);
  if (ranks.size() == 1) return answer_here(prompts, tasks, times);
  std::vector<RolloutTask> own;
  for (std::size_t i = 0; i < tasks.size(); ++i)
    if (drawn_by(i, group, ranks.size()) == ranks.rank()) own.push_back(tasks[i]);
  auto mine = answer_here(prompts, own, times);
  LH_CHECK(ranks.agree(mine.ok() ? Status() : Status(mine.error())));
  return share_rollouts(ranks, *mine, tasks.size(), group);
}

}  // namespace longhaul
