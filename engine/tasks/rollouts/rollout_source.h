// Batches of the model's own answers: a step's are generated when its first micro-batch is asked for, each rank its
// share, whole groups; their advantages follow from the rewards of all. Collective over all ranks.
//
// What is drawn belongs to (seed, step, prompt, member of the group), so that a training that goes on from a checkpoint
// draws the same. With rollout.redraws a group whose rewards are all equal gives way to one of another prompt, of an
// order of its own for each time: dynamic sampling, Yu et al. 2025, "DAPO", section 3.2. Groups are replaced where they
// stand, so that ranks need not know of each other's.
#pragma once

#include "engine/align/group_advantage.h"
#include "engine/align/policy_objective.h"
#include "engine/tasks/common/token_files.h"
#include "engine/tasks/rollouts/rollouts.h"

namespace longhaul {

// Sums over the answers of a step, of all ranks; of those that were replaced only what says so.
struct RolloutFigures {
  double answers = 0, tokens = 0, cut = 0, faults = 0, groups = 0, equal_groups = 0;
  double log_probability = 0;               // of all tokens, under the model that drew them
  double redrawn = 0;                       // groups that were replaced
  double redrawn_faults = 0;                // answers without a reward in them
  double all_answers = 0, all_rewards = 0;  // those of replaced groups included
  AdvantageSums advantages;
  double without_fault() const { return answers - faults; }
};

class RolloutSource final : public BatchSource {
 public:
  // Borrows all but settings and prompts.
  RolloutSource(TaskRun& run, Rollouts& rollouts, const AlignSettings& settings, TokenizedPrompts prompts)
      : run_(run), rollouts_(rollouts), settings_(settings), prompts_(std::move(prompts)) {}

  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override;
  void begin_step(std::int64_t step, std::int64_t left_out) override;
  // Answers.
  std::int64_t samples_per_epoch() const override {
    return static_cast<std::int64_t>(prompts_.ids.size()) * settings_.rollout.group_size;
  }
  // Of the last step, beside step_s.
  void add_metrics(Value& fields) const;

 private:
  Status roll(std::int64_t first);
  // This rank's part: answers from `first` on, and what they add to the step's figures.
  Result<RolloutFigures> roll_own(std::int64_t first);
  // Of group `question` in the order of the whole training, when it is drawn for the n-th time (from 0).
  void add_tasks(std::int64_t question, std::int64_t draw, std::vector<RolloutTask>& tasks) const;
  // Answers of the groups `open` (of those held here) take their places.
  Status draw_groups(const std::vector<std::size_t>& open, std::int64_t first, std::int64_t draw);
  std::vector<std::optional<double>> rewards_of(std::size_t group) const;
  void count_answers(RolloutFigures& mine) const;
  Status add_figures(const RolloutFigures& mine);
  void tell_faults() const;

  TaskRun& run_;
  Rollouts& rollouts_;
  AlignSettings settings_;
  TokenizedPrompts prompts_;
  std::int64_t step_ = 0, held_first_ = -1;
  std::vector<Rollout> held_;
  std::vector<int> lines_;          // of held_: lines of the prompts' file
  std::vector<double> advantages_;  // of held_
  RolloutFigures figures_;
  RolloutTimes times_;
};

// The likeliest answer to each of held-out prompts, by the weights as they stand; its advantage is its reward.
class HeldoutRollouts final : public BatchSource {
 public:
  HeldoutRollouts(Rollouts& rollouts, const AlignSettings& settings, TokenizedPrompts prompts)
      : rollouts_(rollouts), settings_(settings), prompts_(std::move(prompts)) {}
  // Samples of one evaluation come in rising order; one that does not rise begins another.
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override;
  std::int64_t samples_per_epoch() const override { return static_cast<std::int64_t>(prompts_.ids.size()); }

 private:
  Rollouts& rollouts_;
  AlignSettings settings_;
  TokenizedPrompts prompts_;
  std::int64_t held_first_ = 0, last_ = -1;
  std::vector<Rollout> held_;
};

}  // namespace longhaul
