// Room autotune/time
// How long a training step takes, from arithmetic: a bound in closed form, or the simulated pipeline schedule.
// training_case.h is the question; step_time.h adds up layer_time.h and collective_time.h.
// measured_correction.h corrects predictions by measured trainings; forecast_source.h says how far to trust one.
// It takes a layout as given: which layouts exist and whether they fit in memory is not decided here.
//
// How long a training step takes: layers and ends per micro-batch (layer_time.h), the pipeline's schedule, messages
// between stages, gradients and weights between data-parallel ranks, the update of the weights. Two answers: a lower
// bound in closed form, and the schedule simulated on the very lists of operations that the engine runs.
#pragma once

#include <array>

#include "autotune/time/layer_time.h"
#include "contracts/pipeline/pipeline_timeline.h"

namespace longhaul {

// Where a step's time goes on the rank that works most; seconds.
enum class StepPart {
  products,   // matrix products
  attention,  // its core
  memory,     // what streams through memory: norms, activations, loss
  recompute,  // forward passes again
  tensor,     // messages of tp that nothing hides
  context,    // of cp
  experts,    // of ep
  host,       // the GPU waits for launches
  bubble,     // the rank waits for other stages
  sends,      // messages between stages
  gathers,    // ZeRO 3: weights on their way
  data,       // gradients and weights between data-parallel ranks
  optimizer,  // the update
  overhead,   // once a step or a micro-batch, and waiting for the slowest of many ranks
};
inline constexpr int step_parts = 14;
const char* to_string(StepPart part);

struct StepTime {
  std::array<double, step_parts> parts{};
  double sigma = 0;       // relative standard error
  double correction = 1;  // that the parts were multiplied with (measured_correction.h)
  double& operator[](StepPart part) { return parts[static_cast<std::size_t>(part)]; }
  double operator[](StepPart part) const { return parts[static_cast<std::size_t>(part)]; }
  double seconds() const;
};

// Relative standard error of what constants alone predict for such a model on such a device.
double prediction_spread(const ModelShape& shape, const GpuType& gpu, const CommonConstants& common);

// What of a step does not depend on how many replicas or stages there are: looked up by searches.
struct UnitTimes {
  LayerTime layer;
  EndTimes ends;
};
UnitTimes unit_times(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place);

// The layout must divide what it splits (contracts/plan/layout_check.h), pp * vp at most the layers. No allocation.
// Never above step_time of the same layout; equal to it where all stages are alike and a schedule of
// pipeline_schedule.h has at least pp micro-batches.
StepTime step_bound(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place,
                    const UnitTimes& units);
StepTime step_bound(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place);

// invalid_input: a schedule that does not go with the layout (pipeline_schedule.h).
Result<StepTime> step_time(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place,
                           const UnitTimes& units);
Result<StepTime> step_time(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place);

// The costs that the simulation runs with, of every global stage; for pictures of a step.
PipelineCosts pipeline_costs(const TrainingTask& task, const TrainingLayout& layout, const TrainingPlace& place,
                             const UnitTimes& units);

// Model FLOPs utilisation of a step: the convention of ModelShape::train_flops_per_token over the bf16 peak.
double model_flops_utilisation(const TrainingTask& task, const TrainingLayout& layout, const GpuType& gpu,
                               double seconds);

}  // namespace longhaul
