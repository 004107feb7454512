// What a step of a training is made of, as a function of its settings and its number alone: how many samples and
// micro-batches, the order of their operations on this rank, the learning rate. No data, no other rank.
#pragma once

#include <map>
#include <vector>

#include "contracts/pipeline/schedule.h"
#include "engine/parallel/mesh/mesh.h"
#include "engine/train/gradients/gradient_sum.h"
#include "engine/train/step/trainer_options.h"

namespace longhaul {

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

class StepSchedule {
 public:
  // Options whose schedule cannot be are a broken invariant here: training_schedules() is asked first.
  StepSchedule(const TrainerOptions& options, const Mesh& mesh);

  const TrainerOptions& options() const { return options_; }
  // Samples of the global batch after so many consumed ones.
  std::int64_t batch_size(std::int64_t consumed_samples) const;
  // Of this rank in a step of that batch, and of its largest step.
  int micro_batches(std::int64_t batch_size) const;
  int micro_batches_max() const { return schedules_.rbegin()->first; }
  // In the order in which this rank carries them out.
  const std::vector<ScheduleOp>& operations(int micro_batches) const { return schedules_.at(micro_batches); }
  // Of a single micro-batch outside of any step.
  Result<std::vector<ScheduleOp>> operations_of_one(const Mesh& mesh) const;
  // Slots of each of this rank's pipeline stages.
  std::vector<int> slots(Mesh& mesh) const;
  GradientSumOptions gradient_options(const Mesh& mesh) const;

  // Of that step; nullptr without phases.
  const PlannedPhase* phase_at(std::int64_t step) const;
  // With the peak that was ordered last, where one was; phases keep their proportions to the one configured.
  double learning_rate_at(std::int64_t step) const;
  void set_peak_learning_rate(double lr) { ordered_lr_ = lr; }

 private:
  TrainerOptions options_;
  TrainingSchedules schedules_;
  int replicas_;           // dp
  double ordered_lr_ = 0;  // 0: as the options say
};

}  // namespace longhaul
