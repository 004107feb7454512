// Answers of the next rollout, drawn beside the steps that learn from the one before (rollout.ahead): by the weights as
// they stood when those began, so that they are as many steps older as a rollout has (one, unless minibatches or epochs
// make more); the ratio to what drew them stands in the loss anyway. They are kept with checkpoints, in the folder
// `ahead` of the stage's state, so that a training that goes on learns from the same answers, on any number of
// replicas. The pipelining is that of Noukhovitch et al. 2024, "Asynchronous RLHF", section 2 (one step off-policy).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/tasks/rollouts/rollout_schedule.h"
#include "engine/tasks/rollouts/rollouts.h"

namespace longhaul {

class RolloutsAhead final : public TrainingCompanion {
 public:
  // Borrows all but the settings. `prompts`: those of the tasks. `steps`: of the whole training.
  RolloutsAhead(TaskRun& run, Rollouts& rollouts, const AlignSettings& settings, const TokenizedPrompts& prompts,
                std::int64_t steps)
      : run_(run), rollouts_(rollouts), settings_(settings), schedule_(settings), prompts_(prompts), steps_(steps) {}
  ~RolloutsAhead() override { rollouts_.abandon(); }  // which the prompts are borrowed for
  RolloutsAhead(const RolloutsAhead&) = delete;
  RolloutsAhead& operator=(const RolloutsAhead&) = delete;

  bool has_step(std::int64_t step) const { return step <= steps_; }
  // Begins the rollout that step `step` learns from; `left_out`: as BatchSource::begin_step has it. Collective.
  Status begin(std::int64_t step, std::int64_t left_out, std::vector<RolloutTask> tasks, RolloutTimes& times);
  // Its answers, in the order of the tasks; nothing where others were drawn, or none. Collective over the replica.
  Result<std::optional<std::vector<Rollout>>> take(std::int64_t step, std::int64_t left_out, RolloutTimes& times);

  // Waits for what is under way. One file of all replicas' answers, under the name of the policy's checkpoint; those
  // stay beside which one of the policy's does.
  Status save(std::int64_t step) override;
  // A checkpoint without such a file was saved by a training that drew none, and one whose prompts were others (a fork)
  // has answers to those: the next are drawn when they are asked for, and an event says why. A damaged file is refused
  // (corrupt).
  Status load(const std::string& checkpoint) override;

 private:
  struct Drawn {
    std::int64_t step = 0, left_out = 0;
    std::vector<Rollout> rollouts;  // of this replica
    RolloutTimes times;
  };
  Status finish();
  std::int64_t share() const { return schedule_.batch / run_.mesh.data().size(); }
  // The place of answer i of replica `rank` among those of all.
  std::size_t place_of(std::int64_t i, int rank) const;
  Status write(std::int64_t step, const std::vector<std::string>& of_replicas) const;
  void remove_what_stands_alone(const std::string& name) const;

  TaskRun& run_;
  Rollouts& rollouts_;
  AlignSettings settings_;
  RolloutSchedule schedule_;
  const TokenizedPrompts& prompts_;
  std::int64_t steps_;
  std::int64_t begun_step_ = 0, begun_left_out_ = 0;
  std::optional<Drawn> drawn_;
};

}  // namespace longhaul
