#include "autotune/inference/serving_forecast.h"

#include "autotune/inference/processor_serving.h"

namespace longhaul {
namespace {

// Of tokens/s, where the operations were timed on the rank that answers: 14 of the 15 steps that
// tests/bench/autotune/serving_cpu.cc printed lie within 1.645 of it (docs/benchmarks.md).
constexpr double timed_spread = 0.25;

}  // namespace

Result<ServingForecast> forecast_serving(const ModelShape& shape, const ServingTask& task, const ServingLayout& layout,
                                         const ServingPlace& place) {
  LH_CHECK(check_serving(shape, task, place.cluster));
  ServingForecast f;
  f.task = task;
  f.server = serving_candidate(shape, task, layout, place);
  f.parameters = static_cast<double>(shape.parameter_count());
  f.memory = f.server.memory.held() + static_cast<double>(layout.slots * task.context()) * f.server.memory.cache_token;
  f.memory_limit = place.cluster.gpu.memory;
  if (is_timed_there(place, layout))
    f.sigma = timed_spread;
  else
    f.sigma = place.cluster.gpu.measured ? place.serving.spread_seen : place.serving.spread_new;
  return f;
}

}  // namespace longhaul
