#include "engine/tasks/rollouts/rollout_source.h"

#include <algorithm>
#include <numeric>

#include "base/digest/hash.h"
#include "base/text/text.h"
#include "engine/align/group_advantage.h"
#include "engine/data/samples/instruct_data.h"

namespace longhaul {

namespace {

constexpr std::int64_t heldout_block = 256;  // prompts that are answered together

// Of (step, prompt, member) and of how often its group was drawn before: each has draws of its own.
std::uint64_t stream_of(std::int64_t step, std::size_t prompt, std::int64_t member, std::int64_t draw) {
  const std::string of = format("{} {} {}", step, prompt, member);
  return xxh3_64(draw == 0 ? of : of + format(" {}", draw), 0x726f6c6c);
}

std::uint64_t order_seed(std::int64_t seed, std::int64_t draw) {
  return draw == 0 ? static_cast<std::uint64_t>(seed) : xxh3_64(format("{} {}", seed, draw), 0x6f726472);
}

// Rows of rollouts, with what an objective asks of each answer and of its tokens.
class AnswerRows {
 public:
  explicit AnswerRows(BatchStorage& out) : out_(out) { out.per_sequence.clear(); }
  void add(const Rollout& rollout, double advantage, double scale) {
    const double reward = rollout.reward.value.value_or(0);
    rows_.push_back(&rollout);
    for (const double number : {advantage, scale, reward, reward >= 1 ? 1.0 : 0.0}) out_.per_sequence.push_back(number);
  }
  void put(std::int64_t sequence_length) {
    std::vector<const ChatTokens*> tokens;
    for (const Rollout* rollout : rows_) tokens.push_back(&rollout->tokens);
    fill_examples(tokens, sequence_length, out_);
    out_.drawn.assign(out_.ids.size(), 0.0F);
    out_.reference.clear();
    if (!rows_.empty() && !rows_.front()->reference.empty()) out_.reference.assign(out_.ids.size(), 0.0F);
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const Rollout& rollout = *rows_[row];
      const std::size_t answer = rollout.drawn.size();
      const std::size_t begin = row * static_cast<std::size_t>(out_.length) + rollout.tokens.ids.size() - answer - 1;
      for (std::size_t t = 0; t < answer; ++t) {
        out_.drawn[begin + t] = static_cast<float>(rollout.drawn[t]);
        if (!out_.reference.empty()) out_.reference[begin + t] = static_cast<float>(rollout.reference[t]);
      }
    }
  }

 private:
  BatchStorage& out_;
  std::vector<const Rollout*> rows_;
};

}  // namespace

void RolloutSource::begin_step(std::int64_t step, std::int64_t) {
  step_ = step;
  held_first_ = -1;
}

void RolloutSource::add_tasks(std::int64_t question, std::int64_t draw, std::vector<RolloutTask>& tasks) const {
  const std::int64_t group = settings_.rollout.group_size;
  const auto prompts = static_cast<std::int64_t>(prompts_.ids.size());
  RolloutTask task;
  task.prompt = static_cast<std::size_t>(settings_.shuffle || draw > 0
                                             ? example_of_sample(question, prompts, order_seed(settings_.seed, draw))
                                             : question % prompts);
  task.sampling.seed = static_cast<std::uint64_t>(settings_.seed);
  for (std::int64_t k = question * group; k < (question + 1) * group; ++k) {
    task.sampling.stream = stream_of(step_, task.prompt, k % settings_.global_batch_size, draw);
    tasks.push_back(task);
  }
}

std::vector<std::optional<double>> RolloutSource::rewards_of(std::size_t group) const {
  const auto size = static_cast<std::size_t>(settings_.rollout.group_size);
  std::vector<std::optional<double>> rewards;
  for (std::size_t i = group * size; i < (group + 1) * size; ++i) rewards.push_back(held_[i].reward.value);
  return rewards;
}

Status RolloutSource::draw_groups(const std::vector<std::size_t>& open, std::int64_t first, std::int64_t draw) {
  const auto size = static_cast<std::size_t>(settings_.rollout.group_size);
  std::vector<RolloutTask> tasks;
  for (const std::size_t group : open)
    add_tasks(first / settings_.rollout.group_size + static_cast<std::int64_t>(group), draw, tasks);
  LH_TRY(std::vector<Rollout> drawn, rollouts_.answer(prompts_, tasks, times_));
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const std::size_t place = open[i / size] * size + i % size;
    held_[place] = std::move(drawn[i]), lines_[place] = prompts_.examples[tasks[i].prompt].line;
  }
  return {};
}

void RolloutSource::count_answers(RolloutFigures& mine) const {
  for (std::size_t i = 0; i < held_.size(); ++i) {
    const auto tokens = static_cast<double>(held_[i].drawn.size());
    mine.answers += 1, mine.tokens += tokens, mine.cut += held_[i].cut ? 1 : 0;
    mine.faults += held_[i].reward.value ? 0 : 1;
    mine.all_answers += 1, mine.all_rewards += held_[i].reward.value.value_or(0);
    mine.advantages.add(advantages_[i], tokens);
    for (const double logprob : held_[i].drawn) mine.log_probability += logprob;
  }
}

Result<RolloutFigures> RolloutSource::roll_own(std::int64_t first) {
  const auto count = static_cast<std::size_t>(settings_.global_batch_size / run_.group.size());
  held_.assign(count, {}), lines_.assign(count, 0), advantages_.clear();
  std::vector<std::size_t> open(count / static_cast<std::size_t>(settings_.rollout.group_size));
  std::iota(open.begin(), open.end(), 0);
  RolloutFigures mine;
  mine.groups = static_cast<double>(open.size());
  for (std::int64_t draw = 0; !open.empty(); ++draw) {
    LH_CHECK(draw_groups(open, first, draw));
    std::erase_if(open, [&](std::size_t group) { return !rewards_are_equal(rewards_of(group)); });
    if (draw == settings_.rollout.redraws) break;
    for (const std::size_t group : open)
      for (const std::optional<double>& reward : rewards_of(group)) {
        mine.all_answers += 1, mine.all_rewards += reward.value_or(0);
        mine.redrawn_faults += reward ? 0 : 1;
      }
    mine.redrawn += static_cast<double>(open.size());
  }
  mine.equal_groups = static_cast<double>(open.size());
  for (std::size_t group = 0; group < static_cast<std::size_t>(mine.groups); ++group) {
    const std::vector<double> advantages = group_advantages(settings_, rewards_of(group));
    advantages_.insert(advantages_.end(), advantages.begin(), advantages.end());
  }
  count_answers(mine);
  held_first_ = first;
  return mine;
}

Status RolloutSource::add_figures(const RolloutFigures& mine) {
  using F = RolloutFigures;
  constexpr double F::* summed[] = {&F::answers,         &F::tokens,     &F::cut,
                                    &F::faults,          &F::groups,     &F::equal_groups,
                                    &F::log_probability, &F::redrawn,    &F::redrawn_faults,
                                    &F::all_answers,     &F::all_rewards};
  constexpr double AdvantageSums::* of_tokens[] = {&AdvantageSums::tokens, &AdvantageSums::sum,
                                                   &AdvantageSums::squares};
  constexpr double RolloutTimes::* slowest[] = {&RolloutTimes::generate, &RolloutTimes::reward,
                                                &RolloutTimes::reference};
  std::vector<double> own;
  for (const auto field : summed) own.push_back(mine.*field);
  for (const auto field : of_tokens) own.push_back(mine.advantages.*field);
  for (const auto field : slowest) own.push_back(times_.*field);
  std::vector<double> all(own.size() * static_cast<std::size_t>(run_.group.size()));
  LH_CHECK(run_.group.all_gather(own, all));
  figures_ = {}, times_ = {};
  for (auto at = all.begin(); at != all.end();) {
    for (const auto field : summed) figures_.*field += *at++;
    for (const auto field : of_tokens) figures_.advantages.*field += *at++;
    for (const auto field : slowest) times_.*field = std::max(times_.*field, *at++);
  }
  return {};
}

void RolloutSource::tell_faults() const {
  if (figures_.faults == 0) return;
  for (std::size_t i = 0; i < held_.size(); ++i)
    if (!held_[i].reward.value)
      return run_.events.message("warn",
                                 format("step {}: {:.0f} of {:.0f} answers have no reward and teach nothing; the first "
                                        "here is of line {}: {}",
                                        step_, figures_.faults, figures_.answers, lines_[i], held_[i].reward.problem));
}

Status RolloutSource::roll(std::int64_t first) {
  times_ = {};
  auto mine = roll_own(first);
  LH_CHECK(run_.group.agree(mine.ok() ? Status() : Status(mine.error())));
  LH_CHECK(add_figures(*mine));
  tell_faults();
  if (figures_.without_fault() == 0)
    return make_error(ErrorCode::invalid_input,
                      format("step {}: no answer has a reward; the first: {}", step_, held_.front().reward.problem),
                      "mend the reward");
  if (settings_.method == "reinforce++")
    for (std::size_t i = 0; i < held_.size(); ++i)
      advantages_[i] = held_[i].reward.value ? normalised_advantage(advantages_[i], figures_.advantages) : 0;
  return {};
}

Status RolloutSource::fill(std::int64_t first, std::int64_t count, BatchStorage& out) {
  if (held_first_ < 0) LH_CHECK(roll(first));
  AnswerRows rows(out);
  for (std::int64_t k = first; k < first + count; ++k) {
    const auto i = static_cast<std::size_t>(k - held_first_);
    LH_ASSERT(k >= held_first_ && i < held_.size(), std::to_string(k));
    double scale = 1 / static_cast<double>(held_[i].drawn.size());
    if (settings_.rollout.average == "token") scale = figures_.answers / figures_.tokens;
    if (settings_.rollout.average == "longest") scale = 1 / static_cast<double>(settings_.rollout.max_new_tokens);
    rows.add(held_[i], advantages_[i], scale);
  }
  rows.put(settings_.sequence_length);
  return {};
}

void RolloutSource::add_metrics(Value& fields) const {
  fields.set("answer_tokens", figures_.tokens / figures_.answers);
  fields.set("answers_cut", figures_.cut / figures_.answers);
  fields.set("equal_groups", figures_.equal_groups / figures_.groups);
  if (settings_.rollout.redraws > 0) {
    fields.set("redrawn_groups", figures_.redrawn / figures_.groups);
    fields.set("drawn_reward", figures_.all_rewards / figures_.all_answers);
  }
  fields.set("reward_faults", figures_.faults + figures_.redrawn_faults);
  fields.set("entropy", -figures_.log_probability / figures_.tokens);
  fields.set("generate_s", times_.generate);
  fields.set("reward_s", times_.reward);
  fields.set("reference_s", times_.reference);
  fields.set("train_s",
             std::max(0.0, fields.get_number("step_s") - times_.generate - times_.reward - times_.reference));
}

Status HeldoutRollouts::fill(std::int64_t first, std::int64_t count, BatchStorage& out) {
  const auto held = [&](std::int64_t k) {
    return k >= held_first_ && k < held_first_ + static_cast<std::int64_t>(held_.size());
  };
  if (first <= last_ || !held(first) || !held(first + count - 1)) {
    std::vector<RolloutTask> tasks;
    const std::int64_t end = std::min(samples_per_epoch(), first + std::max(count, heldout_block));
    for (std::int64_t k = first; k < end; ++k) {
      tasks.push_back({.prompt = static_cast<std::size_t>(k), .sampling = {}});
      tasks.back().sampling.temperature = 0;
    }
    RolloutTimes times;
    LH_TRY(held_, rollouts_.answer(prompts_, tasks, times));
    held_first_ = first;
  }
  last_ = first;
  AnswerRows rows(out);
  for (std::int64_t k = first; k < first + count; ++k) {
    const Rollout& rollout = held_[static_cast<std::size_t>(k - held_first_)];
    rows.add(rollout, rollout.reward.value.value_or(0), 1 / static_cast<double>(rollout.drawn.size()));
  }
  rows.put(settings_.sequence_length);
  return {};
}

}  // namespace longhaul
