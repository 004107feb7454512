// Room engine/train/step
// One optimizer step over a global batch: micro-batches by the schedule, gradient sum, clipping, update.
// trainer.h is the step; objective.h the loss; batch_source.h the data; sequence_scores.h scores texts.
// spike_guard.h judges a step before its update; replay_verdict.h judges a result by computing it again.
// It does not know the loop around it, which saves, evaluates and ends.
//
// One optimizer step over a global batch: micro-batches by the schedule, gradients summed along one tree over the
// global micro-batch index, mean over all tokens (or pairs) of the global batch, clipping by the global norm, AdamW.
// With data parallelism replica r computes the r-th block of micro-batches; every replica ends with the same bits. The
// ranks of one replica compute the same micro-batches together.
#pragma once

#include <functional>
#include <map>

#include "base/system/clock.h"
#include "contracts/pipeline/schedule.h"
#include "contracts/settings/training/pipeline.h"
#include "contracts/settings/training/training.h"
#include "engine/checkpoint/state/training_state.h"
#include "engine/model/adapter/adapted_weights.h"
#include "engine/parallel/mesh/mesh.h"
#include "engine/train/gradients/gradient_digest.h"
#include "engine/train/gradients/gradient_sum.h"
#include "engine/train/optimizer/optimizer.h"
#include "engine/train/step/objective.h"
#include "engine/train/step/spike_guard.h"

namespace longhaul {

struct TrainerOptions {
  OptimizerSettings optimizer;
  std::uint64_t seed = 0;              // of stochastic rounding
  AdaptedWeights* adapted = nullptr;   // the models' weights, where an adapter is trained; borrowed; null: they are
  MomentStream* offloaded = nullptr;   // where the optimizer's moments are; borrowed; null: in memory
  std::int64_t steps = 0;              // of the whole run: the schedule's length
  std::int64_t micro_batch_size = 1;   // samples
  std::int64_t global_batch_size = 1;  // samples
  BatchRampup batch_rampup;            // checked
  std::int64_t tokens_max = 0;         // of a micro-batch
  bool deterministic = true;
  bool check_contributions = false;  // to sums over ranks: contribution_guard.h
  std::int64_t replay_every = 0;     // steps between replays, trainer_replay.cc; 0: none
  std::vector<PlannedPhase> phases;  // their rates instead of the optimizer's schedule; empty: one, without a name
  SpikeSettings on_spike;
  PipelineSettings pipeline;
  bool overlap_gradients = true;  // sums over ranks start while the backward goes on
  bool overlap_weights = true;    // weights are gathered while others are in use (ZeRO)
  bool overlap_pipeline = true;   // messages between stages travel beside computation
};

// What became of a step: done; or bad (spike_guard.h), its update left out, or to be rolled back from.
enum class StepEnd { done, skipped, roll_back };

struct StepReport {
  std::int64_t step = 0;
  StepEnd end = StepEnd::done;
  std::string problem;   // of a bad step
  double loss = 0;       // mean over the global batch
  double grad_norm = 0;  // before clipping
  double lr = 0;
  double tokens = 0;           // of all ranks' data
  double computed_tokens = 0;  // with padding
  std::int64_t samples = 0;    // of the global batch
  double waited_s = 0;         // by this rank, for others: communication that nothing hid, and those that were late
  CommunicationTable traffic;  // of this rank
  std::array<double, objective_extras> extra{};
  // Of a model with experts: the auxiliary losses of all its layers, not part of `loss`, and how evenly the tokens of
  // the global batch were spread (engine/model/experts/moe_state.h).
  double balance_loss = 0, z_loss = 0;
  ExpertLoad load;
  std::vector<LayerVerdict> verdicts;            // of low precision, by layer, in a step that measured it
  bool multiplies_low = false;                   // a device multiplies low precision itself, where sizes allow it
  std::vector<std::string> low_precision_notes;  // new: whether it is computed or emulated, and why; of this rank
};

// The global batch must be whole micro-batches, and those whole shares of the replicas (dp). The error names all three
// numbers.
Status check_batch_sizes(std::int64_t micro_batch_size, std::int64_t global_batch_size, int dp);

// The operations of this rank in a step, by its number of micro-batches: several where the batch grows. Errors
// (invalid_input) say why the settings do not go with the layout.
using TrainingSchedules = std::map<int, std::vector<ScheduleOp>>;
Result<TrainingSchedules> training_schedules(const TrainerOptions& options, const Mesh& mesh);

// What the model of each of this rank's pipeline stages is made with: its slots (1 without a pipeline), and whether
// input and weight backward run apart.
LlamaOptions stage_options(const TrainingSchedules& schedules, const TrainerOptions& options, Mesh& mesh, int chunk);

class Trainer {
 public:
  // All borrowed; one thread. One model for each of the rank's pipeline stages (vp), in order, made as stage_options
  // says; a schedule that cannot be is a broken invariant here. Connects the store (ParameterStore::connect).
  Trainer(const ComputeContext& context, Mesh& mesh, ParameterStore& store, std::vector<Llama*> stages,
          Objective& objective, BatchSource& source, const TrainerOptions& options, MemoryAccounts* memory = nullptr);

  // A bad step that the settings do not pass over is an error that names the step, its loss, its gradient's norm and
  // the first micro-batch whose loss is no number (or the largest); weights are those before the step, whose data is
  // not used up then, nor when it is to be rolled back from.
  Result<StepReport> step();

  // Mean loss over samples [0, count) of `source`, dealt to the ranks; micro-batches of the training size.
  Result<ObjectiveSums> evaluate(BatchSource& source, std::int64_t count);

  // Another peak of the learning rate's schedule from the next step on; phases keep their proportions to the one
  // configured. All ranks at the same step.
  void set_peak_learning_rate(double lr) { ordered_lr_ = lr; }

  // Of the step to come; nullptr without phases.
  const PlannedPhase* phase_at(std::int64_t step) const;

  // Weights, moments, progress and guard are those after some whole step. Not so from the first change of an update on
  // until its last; after a failure in between, when somebody has put all of them back and says so.
  bool whole() const { return whole_; }
  void set_whole(bool whole) { whole_ = whole; }
  // Lets go of everything that works with other ranks. The models may be destroyed then, and the mesh may get other
  // communicators. A step that failed is forgotten; weights, moments and progress stay as they are.
  void leave();
  // With models made anew, as for the constructor, over the mesh as it is now. Compute weights have to be refreshed.
  void join(std::vector<Llama*> stages);

  // What the step that failed last failed of, where it was that; the same on all ranks.
  const std::optional<SilentCorruption>& corruption() const { return corruption_; }

  ContributionGuard& guard_of_sums() { return guard_of_sums_; }
  TrainingProgress& progress() { return progress_; }
  // Samples of the global order that were left out by rollbacks: the step to come reads from consumed_samples + this.
  std::int64_t& skipped_samples() { return skipped_samples_; }
  SpikeGuard& spike_guard() { return guard_; }
  // Of low precision: the same on all ranks and in all stages of a rank; null without it.
  Value low_precision_state() const;
  Status restore_low_precision(const Value& state);
  Optimizer& optimizer() { return optimizer_; }
  ParameterStore& store() { return store_; }
  CollectiveGroup& group() { return mesh_.world(); }
  const ComputeContext& context() const { return context_; }
  const TrainerOptions& options() const { return options_; }
  // Called before each micro-batch: heartbeat, requests to stop.
  std::function<void(std::int64_t step, int micro_batch)> on_micro_batch;
  // Called before weights and moments change: what still copies them must end first.
  std::function<void()> before_change;
  // A bit to change in the first micro-batch's gradient that this rank computes now: the fault point engine_gradient.
  // Where ranks share a process a test may put itself in its place.
  std::function<std::optional<std::uint64_t>()> gradient_flip = [] { return flip_here(FaultPoint::engine_gradient); };
  // May a rank that cannot go on say so at once, because somebody outside makes the others leave? Else it waits until
  // they come to where all learn of it, which those who stand in a collective without it never do. Empty: it may not.
  std::function<bool(const Error&)> fails_alone;

 private:
  std::int64_t batch_size() const;  // of the step to come
  void count_memory();              // that is in no Buffer, and of the operations
  Result<StepReport> do_step();
  Status agreed(const Status& mine);
  Status agree(const Status& mine);
  Status accumulate(std::vector<ObjectiveSums>& sums);
  void expect(std::size_t op);
  void poll();
  // Where the backward of a micro-batch writes, and who hears that it is done (may be empty).
  struct Gradients {
    std::function<GradientTarget(int micro_batch)> target;
    std::function<void(int micro_batch)> done;
  };
  Status run(const ScheduleOp& op, std::vector<ObjectiveSums>& sums, const Gradients& gradients);
  Status status() const;
  void connect();  // gradients and weights to the ranks that share them
  Status fill_step();
  Status fill(BatchSource& source, std::int64_t first, std::int64_t count, BatchStorage& batch, bool training);
  // Gradients are packed as layout().owned().
  Status sum_over_context(std::span<float> gradient);
  Status sum_over_replica(std::span<float> gradient);
  // Of step `step`, whose gradients are summed: an error (corrupt) where bits have changed on the way.
  Status check_contributions(std::int64_t step);
  Status corruption_error();
  // trainer_replay.cc
  bool replays(std::int64_t step) const;
  Status replay_neighbour();
  Status compare_replays(std::int64_t step);
  // The checksum of the gradient of the first micro-batch in the step of the data-parallel rank so many behind.
  Result<std::uint64_t> compute_first_of(int distance);
  Status run_schedule(std::vector<ObjectiveSums>& sums, const Gradients& gradients);
  // Counts and losses of the experts over the global batch, of every layer on every rank; with them the selection's
  // bias moves, in the masters.
  Status end_step_of_experts(double count, StepReport& report);
  // What the ranks saw of magnitudes and noise becomes scales and decisions of the steps to come.
  Status end_step_of_low_precision(StepReport& report);
  Result<double> gradient_norm(std::span<const float> gradient);
  // Over all micro-batches, and which of them is the worst: the first whose loss is no number, or the largest.
  struct GroupSums {
    ObjectiveSums sums;
    std::int64_t worst = 0;
  };
  Result<GroupSums> sum_over_group(const std::vector<ObjectiveSums>& mine, std::int64_t total);
  double learning_rate_at(std::int64_t step) const;
  // Of a bad step.
  Status pass_over(StepReport& report, const GroupSums& group);

  const ComputeContext& context_;
  Mesh& mesh_;
  ParameterStore& store_;
  std::vector<Llama*> stages_;
  Objective& objective_;
  BatchSource& source_;
  TrainerOptions options_;
  double ordered_lr_ = 0;  // 0: as the options say
  TrainingSchedules schedules_;
  std::vector<ScheduleOp> schedule_;  // of the step
  int micro_batches_ = 0;             // of this rank in the step
  std::vector<int> slots_;            // of each stage
  Optimizer optimizer_;
  ContributionGuard guard_of_sums_;
  std::optional<SilentCorruption> corruption_;
  Value low_precision_;  // between leave and join
  GradientDigest digest_;
  std::uint64_t digest_of_first_ = 0, replayed_ = 0;
  std::int64_t sound_step_ = -1;
  std::unique_ptr<GradientSum> gradient_;  // null between leave and join
  bool whole_ = true;
  TrainingProgress progress_;
  std::int64_t skipped_samples_ = 0;
  SpikeGuard guard_;
  SystemClock clock_;                  // of agreed_ns_ alone
  std::int64_t agreed_ns_ = 0;         // waited for other ranks while agreeing
  std::vector<BatchStorage> batches_;  // of this rank's micro-batches of the largest step
  MemoryAccounts* memory_;             // may be null
  MemoryCharge batch_bytes_, message_bytes_, expert_bytes_, logit_bytes_, scratch_bytes_;
};

}  // namespace longhaul
