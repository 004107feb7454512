#include "engine/tasks/rollouts/rollout_worker.h"

#include <algorithm>
#include <cmath>

#include "base/text/text.h"

namespace longhaul {

namespace {
// Of prompts in one step: nobody waits for the next token of an answer.
constexpr std::int64_t rollout_prefill = 1024;
}  // namespace

RolloutWorker::RolloutWorker(const Clock& clock, const AlignSettings& settings, const Tokenizer& tokenizer,
                             const ModelShape& shape, TextModelInfo info, Judges judges, int threads, CpuLevel level)
    : clock_(clock),
      settings_(settings),
      compute_(threads, level),
      model_(compute_, tokenizer, shape, std::move(info)),
      judges_(std::move(judges)) {}

Status RolloutWorker::generate(const TokenizedPrompts& prompts, std::span<const RolloutTask> tasks,
                               InferenceWeights weights, std::vector<Rollout>& rollouts,
                               std::vector<RewardQuestion>& questions, const Says& says) {
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
  options.between = [&] { says("rollout"); };
  const auto slots = std::min<std::int64_t>(settings_.rollout.slots, static_cast<std::int64_t>(tasks.size()));
  model_.begin(std::move(weights), static_cast<int>(slots), static_cast<std::int64_t>(longest) + options.max_tokens);
  auto answers = generate_answers(model_, clock_, requests, options);
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

Status RolloutWorker::judge(const std::vector<RewardQuestion>& questions, std::vector<Rollout>& rollouts,
                            const Says& says) {
  says("reward");
  if (judges_.judge) return judge_by_model(rollouts, says);
  if (!judges_.reward) {
    for (Rollout& rollout : rollouts) rollout.reward.value = 0;
    return {};
  }
  std::vector<Reward> rewards = judges_.reward->judge(questions);
  for (std::size_t i = 0; i < rollouts.size(); ++i) rollouts[i].reward = std::move(rewards[i]);
  return {};
}

Status RolloutWorker::judge_by_model(std::vector<Rollout>& rollouts, const Says& says) {
  std::vector<JudgedText> texts;
  for (const Rollout& rollout : rollouts)
    texts.push_back({rollout.tokens.ids, rollout.tokens.ids.size() - rollout.drawn.size()});
  LH_TRY(const std::vector<double> rewards, judges_.judge->rewards(compute_, texts, [&] { says("reward"); }));
  for (std::size_t i = 0; i < rollouts.size(); ++i) {
    if (std::isfinite(rewards[i]))
      rollouts[i].reward.value = rewards[i];
    else
      rollouts[i].reward.problem = format("the reward model gives it {}", rewards[i]);
  }
  return {};
}

Status RolloutWorker::compare(std::vector<Rollout>& rollouts, const Says& says) {
  if (!judges_.reference) return {};
  InferenceModel& reference = *judges_.reference;
  std::size_t longest = 0;
  for (const Rollout& rollout : rollouts) longest = std::max(longest, rollout.tokens.ids.size());
  KvCache cache = reference.make_cache(static_cast<std::int64_t>(longest));
  std::span<const std::int32_t> before;  // what the cache begins with
  for (Rollout& rollout : rollouts) {
    says("rollout");
    rollout.reference.resize(rollout.drawn.size());
    const std::span<const std::int32_t> ids = rollout.tokens.ids, prompt = ids.first(ids.size() - rollout.drawn.size());
    const bool same = std::ranges::equal(prompt, before);
    LH_CHECK(score_tokens(compute_, reference, cache, ids, prompt.size(), same, rollout.reference));
    before = prompt;
  }
  return {};
}

Result<std::vector<Rollout>> RolloutWorker::answer(InferenceWeights weights, const TokenizedPrompts& prompts,
                                                   std::span<const RolloutTask> tasks, RolloutTimes& times,
                                                   const Says& says) {
  std::vector<Rollout> rollouts;
  std::vector<RewardQuestion> questions;
  std::int64_t begun = clock_.monotonic_ns();
  const auto seconds = [&] {
    const std::int64_t from = begun;
    begun = clock_.monotonic_ns();
    return static_cast<double>(begun - from) * 1e-9;
  };
  LH_CHECK(generate(prompts, tasks, std::move(weights), rollouts, questions, says));
  times.generate += seconds();
  LH_CHECK(judge(questions, rollouts, says));
  times.reward += seconds();
  LH_CHECK(compare(rollouts, says));
  times.reference += seconds();
  return rollouts;
}

}  // namespace longhaul
