// What a server that is configured already will need and bring. Pure.
#pragma once

#include <string>
#include <vector>

#include "autotune/inference/serving_search.h"
#include "autotune/time/forecast_source.h"

namespace longhaul {

struct ServingForecast {
  std::string stage, device;
  ServingTask task;         // with the lengths that were assumed
  ServingCandidate server;  // rates only where it fits
  double parameters = 0;    // of the model
  double memory = 0;        // bytes: weights, caches of all slots, and what else it holds
  double memory_limit = 0;  // bytes; 0: not known
  ForecastSource source = ForecastSource::arithmetic;
  double sigma = 0;  // relative standard error of tokens/s
  std::vector<std::string> notes;
  std::string problem;  // not empty: there is no forecast, and why

  bool fits() const { return server.fits; }
  // Tokens/s that 90 % of servers like this lie between.
  double low_rate() const { return server.token_rate / (1 + 1.645 * sigma); }
  double high_rate() const { return server.token_rate * (1 + 1.645 * sigma); }
};

// Of `layout` with every slot taken all the time. The shape is resolved, its vocabulary known. gpu.memory of `place` is
// what the server may take. Errors: invalid_input, as check_serving has them.
Result<ServingForecast> forecast_serving(const ModelShape& shape, const ServingTask& task, const ServingLayout& layout,
                                         const ServingPlace& place);

}  // namespace longhaul
