#include "autotune/inference/serving_forecast.h"

namespace longhaul {

Result<ServingForecast> forecast_serving(const ModelShape& shape, const ServingTask& task, const ServingLayout& layout,
                                         const ServingPlace& place) {
  LH_CHECK(check_serving(shape, task, place.cluster));
  ServingForecast f;
  f.task = task;
  f.server = serving_candidate(shape, task, layout, place);
  f.parameters = static_cast<double>(shape.parameter_count());
  f.memory = f.server.memory.held() + static_cast<double>(layout.slots * task.context()) * f.server.memory.cache_token;
  f.memory_limit = place.cluster.gpu.memory;
  f.sigma = place.cluster.gpu.measured ? place.serving.spread_seen : place.serving.spread_new;
  return f;
}

}  // namespace longhaul
