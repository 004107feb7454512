#include "engine/tasks/rollouts/heldout_rollouts.h"

#include <algorithm>

#include "contracts/settings/stages/alignment.h"
#include "engine/tasks/rollouts/answer_rows.h"
#include "engine/tasks/rollouts/token_credit.h"

namespace longhaul {

namespace {
constexpr std::int64_t heldout_block = 256;  // prompts that are answered together
}

RolloutTask HeldoutRollouts::task_of(std::int64_t prompt) const {
  RolloutTask task;
  task.prompt = static_cast<std::size_t>(prompt);
  if (!has_teacher(settings_.method)) return task.sampling.temperature = 0, task;
  task.sampling.seed = static_cast<std::uint64_t>(settings_.seed);
  task.sampling.stream = task.prompt;
  return task;
}

Status HeldoutRollouts::fill(std::int64_t first, std::int64_t count, BatchStorage& out) {
  const auto held = [&](std::int64_t k) {
    return k >= held_first_ && k < held_first_ + static_cast<std::int64_t>(held_.size());
  };
  // With ZeRO 3, or experts over replicas, a rank that has no more samples goes through its last ones again, as often
  // as others need.
  const bool anew = first < last_ || version_ != rollouts_.version(), repeats = !anew && first == last_;
  if (anew) figures_ = {};
  if (anew || !held(first) || !held(first + count - 1)) {
    std::vector<RolloutTask> tasks;
    const std::int64_t end = std::min(samples_per_epoch(), first + std::max(count, heldout_block));
    for (std::int64_t k = first; k < end; ++k) tasks.push_back(task_of(k));
    RolloutTimes times;
    LH_TRY(held_, rollouts_.answer(prompts_, tasks, 1, times));
    if (has_teacher(settings_.method)) LH_CHECK(credit_by_teacher(held_));
    held_first_ = first;
  }
  last_ = first, version_ = rollouts_.version();
  const std::vector<std::int32_t> before = rollouts_.before();
  AnswerRows rows(out, before);
  for (std::int64_t k = first; k < first + count; ++k) {
    const Rollout& rollout = held_[static_cast<std::size_t>(k - held_first_)];
    if (!repeats) figures_.count(rollout);
    rows.add(rollout, rollout.reward.value.value_or(0), 1 / static_cast<double>(rollout.drawn.size()));
  }
  rows.put(settings_.sequence_length);
  return {};
}

Status HeldoutRollouts::add_figures(CollectiveGroup& group, std::vector<Figure>& figures) const {
  RolloutFigures all = figures_;
  RolloutTimes times;
  LH_CHECK(add_over_ranks(group, all, times));
  Value fields = Value::make_table();
  add_rollout_metrics(settings_, all, times, fields);
  figures.push_back({"heldout_answer_tokens", fields.get_number("answer_tokens"), "tokens"});
  figures.push_back({"heldout_answers_cut", fields.get_number("answers_cut"), ""});
  if (!has_teacher(settings_.method))
    figures.push_back({"heldout_reward_deviation", fields.get_number("reward_deviation"), ""});
  if (settings_.rollout.turns == 1) return {};
  figures.push_back({"heldout_turns", fields.get_number("turns"), ""});
  figures.push_back({"heldout_environment_faults", fields.get_number("environment_faults"), ""});
  return {};
}

}  // namespace longhaul
