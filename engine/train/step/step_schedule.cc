#include "engine/train/step/step_schedule.h"

#include <algorithm>

#include "base/text/text.h"
#include "engine/train/optimizer/lr_schedule.h"

namespace longhaul {
namespace {

int micro_batches_of(const TrainerOptions& options, int replicas, std::int64_t batch_size) {
  return static_cast<int>(batch_size / options.micro_batch_size / replicas);
}

bool runs_apart(const TrainingSchedules& schedules) {
  return std::ranges::any_of(schedules.rbegin()->second,
                             [](const ScheduleOp& op) { return op.kind == ScheduleOp::Kind::backward_weight; });
}

TrainingSchedules valid_schedules(const TrainerOptions& options, const Mesh& mesh) {
  auto schedules = training_schedules(options, mesh);
  LH_ASSERT(schedules.ok(), schedules.error().message());
  return std::move(schedules).value();
}

}  // namespace

Status check_batch_sizes(std::int64_t micro_batch_size, std::int64_t global_batch_size, int dp) {
  if (global_batch_size % (micro_batch_size * dp) == 0) return {};
  const std::int64_t unit = micro_batch_size * dp;
  const std::int64_t below = global_batch_size / unit * unit;
  return make_error(ErrorCode::invalid_input,
                    format("global_batch_size = {} is not a multiple of micro_batch_size ({}) * dp ({}) = {}",
                           global_batch_size, micro_batch_size, dp, unit),
                    below > 0 ? format("use {} or {}", below, below + unit) : format("use {}", unit));
}

Result<TrainingSchedules> training_schedules(const TrainerOptions& options, const Mesh& mesh) {
  TrainingSchedules schedules;
  for (const std::int64_t batch : batch_sizes(options.batch_rampup, options.global_batch_size)) {
    const int count = micro_batches_of(options, mesh.dims().dp(), batch);
    LH_TRY(const PipelineScheduleSettings settings, schedule_settings(options.pipeline, mesh.dims(), count));
    LH_TRY(schedules[count], pipeline_schedule(settings, mesh.at().pp));
  }
  return schedules;
}

LlamaOptions stage_options(const TrainingSchedules& schedules, const TrainerOptions& trainer, Mesh& mesh, int chunk) {
  LlamaOptions options;
  options.slots = 0;
  for (const auto& [count, schedule] : schedules) {
    std::vector<ScheduleOp> own;
    std::ranges::copy_if(schedule, std::back_inserter(own), [&](const ScheduleOp& op) { return op.chunk == chunk; });
    const auto slots = schedule_slots(own);
    LH_ASSERT(slots.ok() && *slots > 0, "schedule of the trainer");
    options.slots = std::max(options.slots, *slots);
  }
  options.split_backward = runs_apart(schedules);
  options.chunk = chunk;
  options.overlap = trainer.overlap_pipeline;
  options.mesh = &mesh;
  options.adapted = trainer.adapted;
  return options;
}

StepSchedule::StepSchedule(const TrainerOptions& options, const Mesh& mesh)
    : options_(options), schedules_(valid_schedules(options, mesh)), replicas_(mesh.dims().dp()) {}

std::int64_t StepSchedule::batch_size(std::int64_t consumed_samples) const {
  return global_batch_size_at(options_.batch_rampup, options_.global_batch_size, consumed_samples);
}

int StepSchedule::micro_batches(std::int64_t batch_size) const {
  return micro_batches_of(options_, replicas_, batch_size);
}

Result<std::vector<ScheduleOp>> StepSchedule::operations_of_one(const Mesh& mesh) const {
  PipelineSettings pipeline = options_.pipeline;
  pipeline.group = 0;  // of one micro-batch
  LH_TRY(const PipelineScheduleSettings settings, schedule_settings(pipeline, mesh.dims(), 1));
  return pipeline_schedule(settings, mesh.at().pp);
}

std::vector<int> StepSchedule::slots(Mesh& mesh) const {
  std::vector<int> slots;
  for (int chunk = 0; chunk < mesh.dims().vp; ++chunk)
    slots.push_back(stage_options(schedules_, options_, mesh, chunk).slots);
  return slots;
}

GradientSumOptions StepSchedule::gradient_options(const Mesh& mesh) const {
  GradientSumOptions sum;
  sum.micro_batches.clear();
  for (const auto& [count, schedule] : schedules_) sum.micro_batches.push_back(count);
  sum.deterministic = options_.deterministic;
  sum.by_parts = runs_apart(schedules_) || mesh.dims().vp > 1;
  sum.overlap = options_.overlap_gradients;
  return sum;
}

const PlannedPhase* StepSchedule::phase_at(std::int64_t step) const {
  for (const PlannedPhase& phase : options_.phases)
    if (step <= phase.last_step) return &phase;
  return options_.phases.empty() ? nullptr : &options_.phases.back();
}

double StepSchedule::learning_rate_at(std::int64_t step) const {
  OptimizerSettings settings = options_.optimizer;
  if (const PlannedPhase* phase = phase_at(step)) {
    const double ordered = ordered_lr_ > 0 && settings.lr > 0 ? ordered_lr_ / settings.lr : 1.0;
    return learning_rate(*phase, step) * ordered;
  }
  if (ordered_lr_ > 0) settings.lr = ordered_lr_;
  return learning_rate(settings, step, options_.steps);
}

}  // namespace longhaul
