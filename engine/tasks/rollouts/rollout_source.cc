#include "engine/tasks/rollouts/rollout_source.h"

#include <algorithm>

#include "base/digest/hash.h"
#include "base/text/text.h"
#include "engine/align/group_advantage.h"
#include "engine/data/samples/instruct_data.h"

namespace longhaul {

namespace {

constexpr std::int64_t heldout_block = 256;  // prompts that are answered together

// Of (step, prompt, member): each has draws of its own.
std::uint64_t stream_of(std::int64_t step, std::size_t prompt, std::int64_t member) {
  return xxh3_64(format("{} {} {}", step, prompt, member), 0x726f6c6c);
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

Result<RolloutFigures> RolloutSource::roll_own(std::int64_t first) {
  const std::int64_t group = settings_.rollout.group_size;
  const std::int64_t count = settings_.global_batch_size / run_.group.size();
  std::vector<RolloutTask> tasks;
  lines_.clear();
  for (std::int64_t k = first; k < first + count; ++k) {
    const auto prompts = static_cast<std::int64_t>(prompts_.ids.size());
    const std::int64_t question = k / group;
    RolloutTask task;
    task.prompt = static_cast<std::size_t>(
        settings_.shuffle ? example_of_sample(question, prompts, static_cast<std::uint64_t>(settings_.seed))
                          : question % prompts);
    task.sampling.seed = static_cast<std::uint64_t>(settings_.seed);
    task.sampling.stream = stream_of(step_, task.prompt, k % settings_.global_batch_size);
    tasks.push_back(task);
    lines_.push_back(prompts_.examples[task.prompt].line);
  }
  LH_TRY(held_, rollouts_.answer(prompts_, tasks, times_));
  advantages_.clear();
  RolloutFigures mine;
  for (std::size_t begin = 0; begin < held_.size(); begin += static_cast<std::size_t>(group)) {
    std::vector<std::optional<double>> rewards;
    for (std::size_t i = begin; i < begin + static_cast<std::size_t>(group); ++i)
      rewards.push_back(held_[i].reward.value);
    const std::vector<double> advantages = group_advantages(settings_, rewards);
    advantages_.insert(advantages_.end(), advantages.begin(), advantages.end());
    mine.groups += 1, mine.equal_groups += rewards_are_equal(rewards) ? 1 : 0;
  }
  for (std::size_t i = 0; i < held_.size(); ++i) {
    const double tokens = static_cast<double>(held_[i].drawn.size());
    mine.answers += 1, mine.tokens += tokens, mine.cut += held_[i].cut ? 1 : 0;
    mine.faults += held_[i].reward.value ? 0 : 1;
    mine.advantages.add(advantages_[i], tokens);
    for (const double logprob : held_[i].drawn) mine.log_probability += logprob;
  }
  held_first_ = first;
  return mine;
}

Status RolloutSource::add_figures(const RolloutFigures& mine) {
  const double own[] = {mine.answers,
                        mine.tokens,
                        mine.cut,
                        mine.faults,
                        mine.groups,
                        mine.equal_groups,
                        mine.log_probability,
                        mine.advantages.tokens,
                        mine.advantages.sum,
                        mine.advantages.squares,
                        times_.generate,
                        times_.reward,
                        times_.reference};
  constexpr std::size_t fields = std::size(own), sums = 10;
  std::vector<double> all(fields * static_cast<std::size_t>(run_.group.size())), total(fields, 0.0);
  LH_CHECK(run_.group.all_gather(own, all));
  for (std::size_t i = 0; i < all.size(); ++i) {
    double& of_all = total[i % fields];
    of_all = i % fields < sums ? of_all + all[i] : std::max(of_all, all[i]);
  }
  figures_ = {total[0], total[1], total[2], total[3], total[4], total[5], total[6], {total[7], total[8], total[9]}};
  times_ = {total[10], total[11], total[12]};
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
  fields.set("reward_faults", figures_.faults);
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
