// Batches of the model's own answers: those of a rollout (rollout_schedule.h) are generated when the first micro-batch
// of its first step is asked for, each replica its share of every batch, whole groups; their advantages follow from the
// rewards of all, with a critic from its values, or from a teacher. A step begins with the critic's own. Collective
// over all ranks; the ranks of a replica (tp, pp) hold the same answers.
//
// What is drawn belongs to (seed, step, prompt, member of the group), so that a training that goes on from a checkpoint
// draws the same. With rollout.redraws a group whose rewards are all equal gives way to one of another prompt, of an
// order of its own for each time: dynamic sampling, Yu et al. 2025, "DAPO", section 3.2. Groups are replaced where they
// stand, so that ranks need not know of each other's. With rollout.ahead a rollout's answers were drawn while the steps
// of the one before learnt (rollouts_ahead.h), the first two by the weights that the training begins with; those that
// redraws replace are drawn when they are asked for.
#pragma once

#include "engine/align/policy_objective.h"
#include "engine/tasks/common/token_files.h"
#include "engine/tasks/rollouts/critic.h"
#include "engine/tasks/rollouts/rollout_figures.h"
#include "engine/tasks/rollouts/rollout_schedule.h"
#include "engine/tasks/rollouts/rollouts_ahead.h"

namespace longhaul {

class RolloutSource final : public BatchSource {
 public:
  // Borrows all but settings and prompts. `steps`: of the whole training. `critic`: null where the method has none.
  RolloutSource(TaskRun& run, Rollouts& rollouts, const AlignSettings& settings, TokenizedPrompts prompts,
                std::int64_t steps, Critic* critic = nullptr)
      : run_(run),
        rollouts_(rollouts),
        settings_(settings),
        schedule_(settings),
        prompts_(std::move(prompts)),
        critic_(critic) {
    if (settings_.rollout.ahead) ahead_.emplace(run, rollouts, settings, prompts_, steps);
  }
  RolloutSource(const RolloutSource&) = delete;
  RolloutSource& operator=(const RolloutSource&) = delete;

  // What is to be saved beside the model; null: nothing.
  TrainingCompanion* companion() { return ahead_ ? &*ahead_ : nullptr; }

  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override;
  void begin_step(std::int64_t step, std::int64_t left_out) override;
  // Answers, each as often as it is learnt from.
  std::int64_t samples_per_epoch() const override {
    return static_cast<std::int64_t>(prompts_.ids.size()) * settings_.rollout.group_size * schedule_.epochs;
  }
  // Of the last step, beside step_s.
  void add_metrics(Value& fields) const;

 private:
  std::int64_t share() const { return schedule_.batch / run_.mesh.data().size(); }  // of a batch
  Status begin_batch();
  // Rows [position, position + count) of the step's batch, which are this rank's, behind `before`: what an adapter puts
  // before the policy's texts, and not before the critic's.
  Status rows(std::int64_t position, std::int64_t count, BatchStorage& out, std::span<const std::int32_t> before) const;
  Status roll();
  // This rank's part, and what it adds to the rollout's figures.
  Status roll_own();
  // Of group `question` in the order of the whole training, when it is drawn for the n-th time (from 0), for `step`.
  void add_tasks(std::int64_t step, std::int64_t question, std::int64_t draw, std::vector<RolloutTask>& tasks) const;
  // Of these groups (of those that this rank holds of a rollout).
  std::vector<RolloutTask> tasks_of(std::int64_t step, const std::vector<std::size_t>& groups, std::int64_t draw) const;
  std::vector<std::size_t> all_groups() const;
  // Answers of the groups `open` (of those held here) take their places.
  Status draw_groups(const std::vector<std::size_t>& open, std::int64_t draw);
  // Begins the rollout after this one, where there is one and it is drawn ahead.
  Status begin_next();
  // Was cut at its longest, and adds nothing to the loss for that (rollout.overlong = "filter").
  bool is_left_out(const Rollout& rollout) const;
  double longest_answer() const;                                           // tokens of the model
  std::vector<std::optional<double>> rewards_of(std::size_t group) const;  // shaped
  void compare_groups(const std::vector<std::size_t>& equal);
  Status credit();
  Status compare_with_teacher();
  void report_faults() const;

  TaskRun& run_;
  Rollouts& rollouts_;
  AlignSettings settings_;
  RolloutSchedule schedule_;
  TokenizedPrompts prompts_;
  Critic* critic_;
  std::optional<RolloutsAhead> ahead_;
  std::int64_t step_ = 0, left_out_ = 0;
  bool begun_ = false;              // the step's batch is there
  std::vector<Rollout> held_;       // this rank's share of the first batch, of the second, ...
  std::vector<double> advantages_;  // of held_
  RolloutFigures figures_;
  RolloutTimes times_;
  Value critic_fields_;  // of the step's metric
};

}  // namespace longhaul
