// Room engine/train/step
// One optimizer step over a global batch: micro-batches by the schedule, gradient sum, clipping, update.
// trainer.h is the step, whose order Trainer::do_step() shows; its parts are step_schedule.h (what a step is made of),
// pipeline_executor.h (forward and backward), group_sums.h (losses of all ranks), spike_guard.h (is it bad?),
// gradient_replay.h and replay_verdict.h (is it computed rightly?), model_statistics.h. objective.h is the loss;
// batch_source.h the data; sequence_scores.h and sequence_rewards.h score texts. It does not know the loop around it,
// which saves, evaluates and ends.
//
// One optimizer step over a global batch: micro-batches by the schedule, gradients summed along one tree over the
// global micro-batch index, mean over all tokens (or pairs) of the global batch, clipping by the global norm, AdamW.
// With data parallelism replica r computes the r-th block of micro-batches; every replica ends with the same bits. The
// ranks of one replica compute the same micro-batches together.
#pragma once

#include <optional>
#include <vector>

#include "contracts/events/silent_corruption.h"
#include "engine/checkpoint/state/training_state.h"
#include "engine/parallel/mesh/mesh.h"
#include "engine/train/gradients/gradient_reduction.h"
#include "engine/train/optimizer/optimizer.h"
#include "engine/train/step/gradient_replay.h"
#include "engine/train/step/group_sums.h"
#include "engine/train/step/model_statistics.h"
#include "engine/train/step/pipeline_executor.h"
#include "engine/train/step/spike_guard.h"
#include "engine/train/step/step_schedule.h"
#include "engine/train/step/trainer_options.h"

namespace longhaul {

class Trainer {
 public:
  // All borrowed; one thread. One model for each of the rank's pipeline stages (vp), in order, made as stage_options
  // says; a schedule that cannot be is a broken invariant here. Connects the store (ParameterStore::connect).
  Trainer(const ComputeContext& context, Mesh& mesh, ParameterStore& store, std::vector<Llama*> stages,
          Objective& objective, BatchSource& source, const TrainerOptions& options, MemoryAccounts* memory = nullptr);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  TrainerHooks hooks;

  // A bad step that the settings do not pass over is an error that names the step, its loss, its gradient's norm and
  // the first micro-batch whose loss is no number (or the largest); weights are those before the step, whose data is
  // not used up then, nor when it is to be rolled back from.
  Result<StepReport> step();

  // Mean loss over samples [0, count) of `source`, divided among the ranks; micro-batches of the training size.
  Result<ObjectiveSums> evaluate(BatchSource& source, std::int64_t count);

  // Another peak of the learning rate's schedule from the next step on; phases keep their proportions to the one
  // configured. All ranks at the same step.
  void set_peak_learning_rate(double lr) { schedule_.set_peak_learning_rate(lr); }

  // Of the step to come; nullptr without phases.
  const PlannedPhase* phase_at(std::int64_t step) const { return schedule_.phase_at(step); }

  // Weights, moments, progress and guard are those after some whole step. Not so from the first change of an update on
  // until its last; after a failure in between, when somebody has put all of them back and says so.
  bool whole() const { return state_.whole; }
  void set_whole(bool whole) { state_.whole = whole; }
  // Lets go of everything that works with other ranks. The models may be destroyed then, and the mesh may get other
  // communicators. A step that failed is forgotten; weights, moments and progress stay as they are.
  void leave();
  // With models made anew, as for the constructor, over the mesh as it is now. Compute weights have to be refreshed.
  void join(std::vector<Llama*> stages);

  // What the step that failed last failed of, where it was that; the same on all ranks.
  const std::optional<SilentCorruption>& corruption() const { return corruption_; }

  ContributionGuard& guard_of_sums() { return gradients_.guard(); }
  TrainingProgress& progress() { return state_.progress; }
  // Samples of the global order that were left out by rollbacks: the step to come reads from consumed_samples + this.
  std::int64_t& skipped_samples() { return state_.skipped_samples; }
  SpikeGuard& spike_guard() { return guard_; }
  // Of low precision: the same on all ranks and in all stages of a rank; null without it.
  Value low_precision_state() const { return low_precision_state_of(executor_.stages()); }
  Status restore_low_precision(const Value& state) { return restore_low_precision_of(executor_.stages(), state); }
  Optimizer& optimizer() { return optimizer_; }
  ParameterStore& store() { return store_; }
  CollectiveGroup& group() { return mesh_.world(); }
  const ComputeContext& context() const { return context_; }
  const TrainerOptions& options() const { return schedule_.options(); }

 private:
  struct State {
    TrainingProgress progress;
    std::int64_t skipped_samples = 0;
    bool whole = true;
  };
  Result<StepReport> do_step();
  // Micro-batches [0, count) of the step's data-parallel rank `rank`, of so many that each has.
  Status fill(int rank, int micro_batches, int count);
  Status accumulate(int micro_batches, std::vector<ObjectiveSums>& sums);
  Result<std::uint64_t> compute_first_of(int distance, int micro_batches);
  // Of step `step`, whose gradients are summed: an error (corrupt) where bits have changed on the way.
  Status check_contributions(std::int64_t step);
  Status check_replays(std::int64_t step, const GradientReplay::Compute& compute);
  // What there is to say of a step before its update, and whether it is bad.
  Result<StepReport> judge(const ObjectiveSums& sums, std::span<const float> gradient, std::int64_t samples);
  // Of a bad step.
  Status pass_over(StepReport& report, const GroupSums& group);
  Status update(std::span<float> gradient, double count, StepReport& report);
  Status agreed(const Status& mine);
  Status agree(const Status& mine);

  const ComputeContext& context_;
  Mesh& mesh_;
  ParameterStore& store_;
  BatchSource& source_;
  StepSchedule schedule_;
  Optimizer optimizer_;
  PipelineExecutor executor_;
  GradientReduction gradients_;
  GradientReplay replay_;
  SpikeGuard guard_;
  std::optional<SilentCorruption> corruption_;
  State state_;
  std::int64_t agreed_ns_ = 0;  // waited for other ranks while agreeing
};

}  // namespace longhaul
