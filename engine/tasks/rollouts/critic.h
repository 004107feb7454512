// The model that ppo trains beside the policy: a copy of the policy or of the reward model with a number at each token,
// what is to be expected of the answer from there on (engine/align/critic). It has weights, moments, learning rate and
// checkpoints of its own, and keeps beta, which changes as the answers do. It has the policy's layout, and lies over
// its ranks as the policy does; what is said of it holds for all ranks. Everything is collective.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/align/critic/value_objective.h"
#include "engine/tasks/common/task_run.h"
#include "engine/tasks/rollouts/rollouts.h"
#include "engine/train/loop/training_loop.h"

namespace longhaul {

// Fills rows [position, position + count) of a step's batch.
using BatchRows = std::function<Status(std::int64_t position, std::int64_t count, BatchStorage& out)>;

class Critic final : public TrainingCompanion {
 public:
  // `folder`: of the model that it begins as. `steps`: of the whole training. Borrows the run.
  static Result<std::unique_ptr<Critic>> create(TaskRun& run, const AlignSettings& settings, const std::string& folder,
                                                std::int64_t steps);
  ~Critic() override;

  // Sets the values of answers, by the weights as they stand. The ranks of a replica have the same answers; replicas as
  // many as each other.
  Status value(std::vector<Rollout>& rollouts);
  // One update with the batch of the policy's next step.
  Result<StepReport> step(const BatchRows& rows);

  double beta() const { return beta_; }
  // After a rollout (engine/align/critic/token_reward.h).
  void adapt_beta(double divergence, double answers);

  // In the folder `critic` of the stage's state, under the names of the policy's checkpoints; those stay beside which
  // one of the policy's does.
  Status save(std::int64_t step) override;
  Status load(const std::string& checkpoint) override;

 private:
  class Batches;
  Critic(TaskRun& run, const AlignSettings& settings, const ModelShape& shape, const StageLayout& stages);
  Status make_model(const TrainerOptions& options);
  // Of the tokens of a micro-batch, which all ranks of the replica have.
  Status values_of(const BatchStorage& batch, std::span<float> values);
  TrainingState state();
  void remove_what_stands_alone(std::int64_t step) const;

  TaskRun& run_;
  AlignSettings settings_;
  std::unique_ptr<MemoryAccounts> memory_;  // on a GPU, where all of it lies then; else nobody counts
  ComputeContext compute_;  // of its own: what the policy's step does between operations goes on behind it
  ParameterStore store_;
  ValueObjective objective_;
  std::unique_ptr<Batches> batches_;
  std::vector<std::unique_ptr<Llama>> stages_;  // of the pipeline, on this rank
  std::unique_ptr<Trainer> trainer_;
  CheckpointStore checkpoints_;
  double beta_;
};

}  // namespace longhaul
