#include "engine/tasks/rollouts/rollout_figures.h"

#include <algorithm>
#include <cmath>

#include "contracts/settings/stages/alignment.h"

namespace longhaul {

void RolloutFigures::count(const Rollout& rollout) {
  answers += 1, tokens += static_cast<double>(rollout.drawn.size()), cut += rollout.cut ? 1 : 0;
  drafted += static_cast<double>(rollout.drafted), accepted += static_cast<double>(rollout.accepted);
  decode_steps += static_cast<double>(rollout.decode_steps);
  faults += rollout.reward.value ? 0 : 1;
  turns += static_cast<double>(rollout.turns), read += static_cast<double>(rollout.read);
  environment_faults += rollout.environment_failed ? 1 : 0;
  const double reward = rollout.reward.value.value_or(0);
  all_answers += 1, all_rewards += reward;
  rewards += reward, reward_squares += reward * reward;
  shaped += rollout.penalty > 0 ? 1 : 0, penalties += rollout.penalty;
  for (const double logprob : rollout.drawn) log_probability += logprob;
}

Status take_slowest(CollectiveGroup& group, RolloutTimes& times) {
  constexpr double RolloutTimes::* slowest[] = {
      &RolloutTimes::reshard,   &RolloutTimes::generate, &RolloutTimes::environment, &RolloutTimes::reward,
      &RolloutTimes::reference, &RolloutTimes::beside,   &RolloutTimes::wait,        &RolloutTimes::value};
  std::vector<double> own;
  for (const auto field : slowest) own.push_back(times.*field);
  std::vector<double> all(own.size() * static_cast<std::size_t>(group.size()));
  LH_CHECK(group.all_gather(own, all));
  times = {};
  for (auto at = all.begin(); at != all.end();)
    for (const auto field : slowest) times.*field = std::max(times.*field, *at++);
  return {};
}

Status add_over_ranks(CollectiveGroup& group, RolloutFigures& figures, RolloutTimes& times) {
  using F = RolloutFigures;
  constexpr double F::* summed[] = {&F::answers,
                                    &F::tokens,
                                    &F::cut,
                                    &F::faults,
                                    &F::groups,
                                    &F::equal_groups,
                                    &F::log_probability,
                                    &F::redrawn,
                                    &F::redrawn_faults,
                                    &F::all_answers,
                                    &F::all_rewards,
                                    &F::rewards,
                                    &F::reward_squares,
                                    &F::divergence,
                                    &F::drafted,
                                    &F::accepted,
                                    &F::decode_steps,
                                    &F::shaped,
                                    &F::penalties,
                                    &F::turns,
                                    &F::environment_faults,
                                    &F::read};
  constexpr AdvantageSums F::* of_tokens[] = {&F::advantages, &F::returns};
  constexpr double AdvantageSums::* sums[] = {&AdvantageSums::tokens, &AdvantageSums::sum, &AdvantageSums::squares};
  std::vector<double> own;
  for (const auto field : summed) own.push_back(figures.*field);
  for (const auto tokens : of_tokens)
    for (const auto field : sums) own.push_back(figures.*tokens.*field);
  own.insert(own.end(), figures.batch_tokens.begin(), figures.batch_tokens.end());
  std::vector<double> all(own.size() * static_cast<std::size_t>(group.size()));
  LH_CHECK(group.all_gather(own, all));
  RolloutFigures total;
  total.batch_tokens.resize(figures.batch_tokens.size());
  for (auto at = all.begin(); at != all.end();) {
    for (const auto field : summed) total.*field += *at++;
    for (const auto tokens : of_tokens)
      for (const auto field : sums) total.*tokens.*field += *at++;
    for (double& tokens : total.batch_tokens) tokens += *at++;
  }
  figures = std::move(total);
  return take_slowest(group, times);
}

void add_rollout_metrics(const AlignSettings& settings, const RolloutFigures& figures, const RolloutTimes& times,
                         Value& fields) {
  fields.set("answer_tokens", figures.tokens / figures.answers);
  fields.set("answers_cut", figures.cut / figures.answers);
  const bool judged = !has_teacher(settings.method);
  if (judged && !has_critic(settings.method)) fields.set("equal_groups", figures.equal_groups / figures.groups);
  if (settings.rollout.redraws > 0) {
    fields.set("redrawn_groups", figures.redrawn / figures.groups);
    fields.set("drawn_reward", figures.all_rewards / figures.all_answers);
  }
  if (settings.rollout.overlong == "shape") {
    fields.set("answers_shaped", figures.shaped / figures.answers);
    fields.set("overlong_penalty", figures.penalties / figures.answers);
  }
  if (settings.rollout.speculate != "none") {
    fields.set("draft_tokens", figures.drafted / figures.answers);
    fields.set("drafts_accepted", figures.drafted > 0 ? figures.accepted / figures.drafted : 0.0);
    fields.set("tokens_per_step",
               figures.decode_steps > 0 ? (figures.tokens - figures.turns) / figures.decode_steps : 0.0);
  }
  if (judged) {
    const double n = figures.without_fault(), mean = figures.rewards / n;
    fields.set("reward_deviation",
               n > 1 ? std::sqrt(std::max(0.0, figures.reward_squares - n * mean * mean) / (n - 1)) : 0.0);
    fields.set("reward_faults", figures.faults + figures.redrawn_faults);
  }
  if (settings.rollout.turns > 1) {
    fields.set("turns", figures.turns / figures.answers);
    fields.set("read_tokens", figures.read / figures.answers);
    fields.set("environment_faults", figures.environment_faults);
    fields.set("environment_s", times.environment);
  }
  fields.set("entropy", -figures.log_probability / figures.tokens);
  fields.set("reshard_s", times.reshard);
  fields.set("generate_s", times.generate);
  if (judged) fields.set("reward_s", times.reward);
  fields.set("reference_s", times.reference);
  if (settings.rollout.ahead) fields.set("wait_s", times.wait);
  if (times.critic > 0) {
    fields.set("value_s", times.value);
    fields.set("critic_s", times.critic);
  }
}

}  // namespace longhaul
