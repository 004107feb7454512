#include "engine/tasks/rollouts/rollout_source.h"

#include <algorithm>
#include <numeric>

#include "base/digest/hash.h"
#include "base/text/text.h"
#include "contracts/settings/stages/alignment.h"
#include "engine/align/group_advantage.h"
#include "engine/align/overlong.h"
#include "engine/data/samples/instruct_data.h"
#include "engine/tasks/rollouts/answer_rows.h"
#include "engine/tasks/rollouts/token_credit.h"

namespace longhaul {

namespace {

// Of (step, prompt, member) and of how often its group was drawn before: each has draws of its own.
std::uint64_t stream_of(std::int64_t step, std::size_t prompt, std::int64_t member, std::int64_t draw) {
  const std::string of = format("{} {} {}", step, prompt, member);
  return xxh3_64(draw == 0 ? of : of + format(" {}", draw), 0x726f6c6c);
}

std::uint64_t order_seed(std::int64_t seed, std::int64_t draw) {
  return draw == 0 ? static_cast<std::uint64_t>(seed) : xxh3_64(format("{} {}", seed, draw), 0x6f726472);
}

double seconds_since(const Clock& clock, std::int64_t begun_ns) {
  return static_cast<double>(clock.monotonic_ns() - begun_ns) * 1e-9;
}

}  // namespace

void RolloutSource::begin_step(std::int64_t step, std::int64_t left_out) {
  step_ = step, left_out_ = left_out, begun_ = false;
}

void RolloutSource::add_tasks(std::int64_t step, std::int64_t question, std::int64_t draw,
                              std::vector<RolloutTask>& tasks) const {
  const std::int64_t group = settings_.rollout.group_size;
  const auto prompts = static_cast<std::int64_t>(prompts_.ids.size());
  RolloutTask task;
  task.prompt = static_cast<std::size_t>(settings_.shuffle || draw > 0
                                             ? example_of_sample(question, prompts, order_seed(settings_.seed, draw))
                                             : question % prompts);
  task.sampling.seed = static_cast<std::uint64_t>(settings_.seed);
  for (std::int64_t k = question * group; k < (question + 1) * group; ++k) {
    task.sampling.stream = stream_of(step, task.prompt, k % schedule_.answers(), draw);
    tasks.push_back(task);
  }
}

bool RolloutSource::is_left_out(const Rollout& rollout) const {
  return rollout.cut && settings_.rollout.overlong == "filter";
}

double RolloutSource::longest_answer() const {
  return static_cast<double>(settings_.rollout.turns) * static_cast<double>(settings_.rollout.max_new_tokens);
}

std::vector<std::optional<double>> RolloutSource::rewards_of(std::size_t group) const {
  const auto size = static_cast<std::size_t>(settings_.rollout.group_size);
  std::vector<std::optional<double>> rewards;
  for (std::size_t i = group * size; i < (group + 1) * size; ++i) rewards.push_back(held_[i].shaped_reward());
  return rewards;
}

std::vector<RolloutTask> RolloutSource::tasks_of(std::int64_t step, const std::vector<std::size_t>& groups,
                                                 std::int64_t draw) const {
  const std::int64_t of_batch = share() / settings_.rollout.group_size;  // groups, here
  const std::int64_t begin = schedule_.answers_before(step) + left_out_;
  std::vector<RolloutTask> tasks;
  for (const std::size_t one : groups) {
    const auto group = static_cast<std::int64_t>(one);
    const std::int64_t first = begin + group / of_batch * schedule_.batch + run_.mesh.data().rank() * share();
    add_tasks(step, first / settings_.rollout.group_size + group % of_batch, draw, tasks);
  }
  return tasks;
}

std::vector<std::size_t> RolloutSource::all_groups() const {
  std::vector<std::size_t> groups(static_cast<std::size_t>(schedule_.minibatches * share()) /
                                  static_cast<std::size_t>(settings_.rollout.group_size));
  std::iota(groups.begin(), groups.end(), 0);
  return groups;
}

Status RolloutSource::draw_groups(const std::vector<std::size_t>& open, std::int64_t draw) {
  const auto size = static_cast<std::size_t>(settings_.rollout.group_size);
  const std::vector<RolloutTask> tasks = tasks_of(step_, open, draw);
  std::optional<std::vector<Rollout>> drawn;
  if (ahead_ && draw == 0) {
    LH_TRY(drawn, ahead_->take(step_, left_out_, times_));
    if (drawn && settings_.rollout.redraws > 0) LH_CHECK(rollouts_.gather(times_));  // some replicas will need them
  }
  if (!drawn) {
    LH_TRY(drawn, rollouts_.answer(prompts_, tasks, size, times_));
  }
  for (std::size_t i = 0; i < drawn->size(); ++i) {
    const std::size_t place = open[i / size] * size + i % size;
    held_[place] = std::move((*drawn)[i]), held_[place].line = prompts_.examples[tasks[i].prompt].line;
    held_[place].penalty = overlong_penalty(settings_.rollout, static_cast<std::int64_t>(held_[place].drawn.size()));
  }
  return {};
}

Status RolloutSource::begin_next() {
  const std::int64_t next = step_ + schedule_.updates();
  if (!ahead_ || !ahead_->has_step(next)) return {};
  return ahead_->begin(next, left_out_, tasks_of(next, all_groups(), 0), times_);
}

// `equal`: those of the groups that stay though their rewards are all equal.
void RolloutSource::compare_groups(const std::vector<std::size_t>& equal) {
  figures_.equal_groups = static_cast<double>(equal.size());
  for (std::size_t group = 0; group < static_cast<std::size_t>(figures_.groups); ++group) {
    const std::vector<double> advantages = group_advantages(settings_, rewards_of(group));
    advantages_.insert(advantages_.end(), advantages.begin(), advantages.end());
  }
  for (std::size_t i = 0; i < held_.size(); ++i)
    figures_.advantages.add(advantages_[i], static_cast<double>(held_[i].drawn.size()));
}

Status RolloutSource::roll_own() {
  const auto count = static_cast<std::size_t>(schedule_.minibatches * share());
  const auto size = static_cast<std::size_t>(settings_.rollout.group_size);
  held_.assign(count, {}), advantages_.clear();
  std::vector<std::size_t> open = all_groups();
  figures_ = {};
  figures_.groups = static_cast<double>(open.size());
  for (std::int64_t draw = 0; !open.empty(); ++draw) {
    LH_CHECK(draw_groups(open, draw));
    std::erase_if(open, [&](std::size_t group) { return !rewards_are_equal(rewards_of(group)); });
    if (draw == settings_.rollout.redraws) break;
    for (const std::size_t group : open)
      for (std::size_t i = group * size; i < (group + 1) * size; ++i) {
        figures_.all_answers += 1, figures_.all_rewards += held_[i].reward.value.value_or(0);
        figures_.redrawn_faults += held_[i].reward.value ? 0 : 1;
        figures_.environment_faults += held_[i].environment_failed ? 1 : 0;
      }
    figures_.redrawn += static_cast<double>(open.size());
  }
  figures_.batch_tokens.assign(static_cast<std::size_t>(schedule_.minibatches), 0.0);
  for (std::size_t i = 0; i < held_.size(); ++i) {
    figures_.count(held_[i]);
    if (is_left_out(held_[i])) continue;
    figures_.batch_tokens[i / static_cast<std::size_t>(share())] += static_cast<double>(held_[i].drawn.size());
  }
  if (has_teacher(settings_.method)) return compare_with_teacher();
  if (!critic_) return compare_groups(open), Status();
  figures_.equal_groups = static_cast<double>(open.size());
  return credit();
}

Status RolloutSource::compare_with_teacher() {
  advantages_.assign(held_.size(), 0.0);  // tokens have their own
  return credit_by_teacher(held_);
}

// By the critic's values as they stand.
Status RolloutSource::credit() {
  advantages_.assign(held_.size(), 0.0);  // tokens have their own
  const std::int64_t begun_ns = run_.clock.monotonic_ns();
  LH_CHECK(critic_->value(held_));
  credit_tokens(settings_.ppo, critic_->beta(), held_, figures_);
  times_.value += seconds_since(run_.clock, begun_ns);
  return {};
}

void RolloutSource::report_faults() const {
  if (figures_.faults == 0) return;
  for (std::size_t i = 0; i < held_.size(); ++i)
    if (!held_[i].reward.value)
      return run_.events.message(
          "warn", format("step {}: {:.0f} of {:.0f} answers have no reward and teach nothing; the first "
                         "here is of line {}: {}",
                         step_, figures_.faults, figures_.answers, held_[i].line, held_[i].reward.problem));
}

Status RolloutSource::roll() {
  LH_CHECK(run_.group.agree(roll_own()));
  const Status begun = begin_next();
  rollouts_.release();
  LH_CHECK(run_.group.agree(begun));
  LH_CHECK(add_over_ranks(run_.mesh.data(), figures_, times_));
  LH_CHECK(take_slowest(run_.mesh.replica(), times_));
  report_faults();
  if (figures_.without_fault() == 0)
    return make_error(ErrorCode::invalid_input,
                      format("no answer has a reward; the first: {}", held_.front().reward.problem),
                      "mend the reward, or the environment");
  if (settings_.method == "reinforce++")
    for (std::size_t i = 0; i < held_.size(); ++i)
      advantages_[i] = held_[i].reward.value ? normalised_advantage(advantages_[i], figures_.advantages) : 0;
  if (!critic_) return {};
  if (settings_.ppo.whiten) whiten_advantages(held_, figures_.advantages);
  const double divergence = figures_.divergence / figures_.advantages.tokens;
  critic_fields_ = Value::make_table();
  critic_fields_.set("kl_coefficient", critic_->beta());
  critic_fields_.set("kl_penalty", divergence);
  critic_fields_.set("explained_variance", explained_variance(figures_));
  critic_->adapt_beta(divergence, figures_.answers);
  return {};
}

Status RolloutSource::begin_batch() {
  times_ = {};
  if (schedule_.begins_rollout(step_)) LH_CHECK(roll());
  const std::int64_t steps_since = (step_ - 1) % schedule_.updates();
  if (held_.empty())
    return make_error(
        ErrorCode::internal,
        format("step {} is {} steps behind the first that learns from its answers, and those are not here", step_,
               steps_since),
        "go on from a checkpoint of a step that ends a rollout");
  begun_ = true;
  if (!critic_) return {};
  const std::int64_t begun_ns = run_.clock.monotonic_ns();
  const BatchRows of_batch = [this](std::int64_t position, std::int64_t count, BatchStorage& out) {
    return rows(position, count, out, {});
  };
  LH_TRY(const StepReport step, critic_->step(of_batch));
  times_.critic = seconds_since(run_.clock, begun_ns);
  critic_fields_.set("value_loss", step.loss);
  critic_fields_.set("value_clip_fraction", step.extra[0]);
  critic_fields_.set("value", step.extra[1]);
  critic_fields_.set("critic_grad_norm", step.grad_norm);
  return {};
}

Status RolloutSource::rows(std::int64_t position, std::int64_t count, BatchStorage& out,
                           std::span<const std::int32_t> before) const {
  const std::int64_t batch = schedule_.batch_of(step_);
  AnswerRows filled(out, before);
  for (std::int64_t k = position - run_.mesh.data().rank() * share(); count > 0; ++k, --count) {
    LH_ASSERT(k >= 0 && k < share(), std::to_string(k));
    const auto i = static_cast<std::size_t>(batch * share() + k);
    double scale = 1 / static_cast<double>(held_[i].drawn.size());
    if (settings_.rollout.average == "token")
      scale = static_cast<double>(schedule_.batch) / figures_.batch_tokens[static_cast<std::size_t>(batch)];
    if (settings_.rollout.average == "longest") scale = 1 / longest_answer();
    if ((critic_ && !held_[i].reward.value) || is_left_out(held_[i])) scale = 0;
    filled.add(held_[i], advantages_[i], scale);
  }
  filled.put(settings_.sequence_length);
  return {};
}

Status RolloutSource::fill(std::int64_t first, std::int64_t count, BatchStorage& out) {
  const std::int64_t begun_ns = run_.clock.monotonic_ns();
  if (!begun_) LH_CHECK(begin_batch());
  LH_CHECK(rows(first - (step_ - 1) * schedule_.batch - left_out_, count, out, rollouts_.before()));
  times_.fill += seconds_since(run_.clock, begun_ns);
  return {};
}

void RolloutSource::add_metrics(Value& fields) const {
  add_rollout_metrics(settings_, figures_, times_, fields);
  fields.set("other_s", times_.other());
  fields.set("train_s", std::max(0.0, fields.get_number("step_s") - times_.phases() - times_.other()));
  if (!critic_) return;
  for (const ValueMember& field : critic_fields_.as_table()) fields.set(field.key, field.value);
}

}  // namespace longhaul
