// Forward and backward of a rank's micro-batches over its pipeline stages, in the order of a schedule. It fills the
// batches, receives the message before an operation while the one before that runs, and counts the memory of all this.
// Gradients go where its caller says; it does not know how they are summed, nor what a step does with them.
#pragma once

#include <functional>
#include <vector>

#include "contracts/pipeline/schedule.h"
#include "engine/core/tensor/memory_accounts.h"
#include "engine/parallel/mesh/mesh.h"
#include "engine/train/step/trainer_options.h"

namespace longhaul {

// Where the backward of a micro-batch writes, and the callback that it is done (may be empty).
struct MicroBatchGradients {
  std::function<GradientTarget(int micro_batch)> target;
  std::function<void(int micro_batch)> done;
};

// The micro-batches of an evaluation that a replica computes: [first, end) of `total`, of which those from `total` on
// are the last one over again, and count for nothing.
struct EvaluationShare {
  std::int64_t first = 0, end = 0, total = 0;
  std::int64_t per_rank = 0;
};
// Of replica `rank` of `ranks`; `together`: all of them compute as many.
EvaluationShare evaluation_share(std::int64_t samples, std::int64_t micro_batch_size, int rank, int ranks,
                                 bool together);

class PipelineExecutor {
 public:
  // All borrowed; one thread. `slots`: of each of the rank's pipeline stages; `micro_batches_max`: of its largest step.
  PipelineExecutor(const ComputeContext& context, Mesh& mesh, Objective& objective, const TrainerOptions& options,
                   const TrainerHooks& hooks, std::vector<int> slots, int micro_batches_max, MemoryAccounts* memory);

  // One model a stage, in order. Models made anew go on with the low precision of those that were released.
  void set_stages(std::vector<Llama*> stages);
  // Nothing can be run until there are others.
  void release_stages();
  const std::vector<Llama*>& stages() const { return stages_; }

  // Micro-batches [0, count) of this rank, from sample `first` of the global order on.
  Status fill(BatchSource& source, std::int64_t first, int count);
  // The operations of step `step` on what was filled; `sums` gets those of each micro-batch on the last stage.
  Status run(std::int64_t step, const std::vector<ScheduleOp>& operations, const MicroBatchGradients& gradients,
             std::vector<ObjectiveSums>& sums);
  // Forward alone over samples [0, samples) of `source`, as far as they are of the share; `step` is the one done last.
  Status evaluate(BatchSource& source, std::int64_t samples, const EvaluationShare& share, std::int64_t step,
                  std::vector<ObjectiveSums>& sums);
  // Lets messages on their way go on: called between operations.
  void poll();

 private:
  // Memory that is in no Buffer, and of the operations.
  struct Charges {
    explicit Charges(MemoryAccounts* memory);
    MemoryCharge batches, messages, experts, logits, scratch;
  };
  Status fill_one(BatchSource& source, std::int64_t first, std::int64_t count, BatchStorage& batch, bool training);
  void expect(const std::vector<ScheduleOp>& operations, std::size_t at);
  Status run_one(std::int64_t step, const ScheduleOp& op, const MicroBatchGradients& gradients,
                 std::vector<ObjectiveSums>& sums);
  Status finish();
  Status status() const;
  void count_memory();

  const ComputeContext& context_;
  Mesh& mesh_;
  Objective& objective_;
  const TrainerOptions& options_;
  const TrainerHooks& hooks_;
  std::vector<int> slots_;             // of each stage
  std::vector<BatchStorage> batches_;  // of this rank's micro-batches of the largest step
  std::vector<Llama*> stages_;
  Value low_precision_;  // of stages that were released
  Charges charges_;
};

}  // namespace longhaul
