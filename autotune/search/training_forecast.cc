#include "autotune/search/training_forecast.h"

namespace longhaul {

Result<TrainingForecast> forecast_training(const SearchQuestion& q, const TrainingLayout& layout, std::int64_t steps,
                                           bool search) {
  constexpr double deviations = 1.96, worth_telling = 1.05;
  TrainingForecast f;
  f.layout = layout;
  LH_TRY(f.time, step_time(q.task, layout, q.place));
  const double seconds = f.seconds(), ranks = layout.dims.world_size();
  f.low = seconds / (1 + deviations * f.time.sigma), f.high = seconds * (1 + deviations * f.time.sigma);
  f.tokens_per_second = static_cast<double>(q.task.global_batch_size * q.task.sequence_length) / seconds;
  const GpuType& gpu = q.place.cluster.gpu;
  if (gpu.peak(layout.precision) > 0)
    f.utilisation = model_flops_utilisation(q.task, layout, gpu, seconds) * gpu.peak_bf16 / gpu.peak(layout.precision);
  f.memory =
      worst_stage_memory(q.memory, framework_model(q.task.shape), framework_training(q.task, layout)).memory.total();
  f.memory_limit = q.memory_limit, f.steps = steps;
  f.gpu_hours = f.duration() * ranks / 3600, f.energy_kwh = f.gpu_hours * gpu.power / 1000;
  if (!search) return f;
  auto found = search_layouts(q);
  if (!found.ok()) {
    if (f.memory > f.memory_limit) f.notes.push_back(found.error().message());
    return f;
  }
  if (f.memory > f.memory_limit || found->best.front().seconds() * worth_telling < seconds)
    f.better = found->best.front();
  return f;
}

}  // namespace longhaul
