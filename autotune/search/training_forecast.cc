#include "autotune/search/training_forecast.h"

#include "base/text/text.h"

namespace longhaul {

Result<TrainingForecast> forecast_training(const SearchRequest& q, const TrainingLayout& layout, std::int64_t steps,
                                           bool search) {
  constexpr double worth_reporting = 1.05;
  TrainingForecast f;
  f.layout = layout;
  LH_TRY(LayoutForecast as_written, forecast_layout(q, layout, "the layout as written"));
  f.time = as_written.time;
  const double seconds = f.seconds(), ranks = layout.dims.world_size();
  const ForecastRange range = forecast_range(seconds, f.time.sigma);
  f.low = range.low, f.high = range.high;
  f.tokens_per_second = static_cast<double>(q.task.global_batch_size * q.task.sequence_length) / seconds;
  const GpuType& gpu = q.place.cluster.gpu;
  if (gpu.peak(layout.precision) > 0)
    f.utilisation = model_flops_utilisation(q.task, layout, gpu, seconds) * gpu.peak_bf16 / gpu.peak(layout.precision);
  f.memory = as_written.memory;
  f.tuning.candidates.push_back(std::move(as_written));
  if (q.memory_limit < 1e17) f.tuning.memory_limit = q.memory_limit;
  f.memory_limit = q.memory_limit, f.steps = steps;
  f.gpu_hours = f.duration() * ranks / 3600, f.energy_kwh = f.gpu_hours * gpu.power / 1000;
  if (gpu.power > 0) f.energy_from = format("{:.0f} W each, the most that [gpu.{}] may take", gpu.power, gpu.key);
  if (!search) return f;
  auto found = search_layouts(q);
  if (!found.ok()) {
    if (f.memory > f.memory_limit) f.notes.push_back(found.error().message());
    return f;
  }
  add_search(f.tuning, *found);
  if (f.memory <= f.memory_limit && found->best.front().seconds() * worth_reporting >= seconds) return f;
  f.better = found->best.front();
  LH_TRY(LayoutForecast best, forecast_layout(q, f.better->layout, "the best one found"));
  f.tuning.candidates.push_back(std::move(best));
  return f;
}

void add_rollout(TrainingForecast& f, const RolloutForecast& rollout) {
  const double longer = rollout.seconds / f.time.seconds(), ranks = f.layout.dims.world_size();
  const double more = longer * (ranks + rollout.drawing_ranks) / ranks;
  f.low *= rollout.alone / f.time.seconds();
  f.high *= longer, f.tokens_per_second /= longer, f.utilisation /= longer;
  f.gpu_hours *= more, f.energy_kwh *= more;
  f.rollout = rollout;
}

}  // namespace longhaul
