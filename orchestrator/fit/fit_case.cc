#include "orchestrator/fit/fit_case.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/text/text.h"

namespace longhaul {

void for_each_training(const FitCase& fit, const std::function<void(const FitTraining&)>& visit) {
  std::unordered_map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < fit.plan.stages.size(); ++i) index.emplace(fit.plan.stages[i].id(), i);
  for (const TrainingForecast& forecast : fit.forecasts) {
    const auto found = index.find(forecast.stage);
    if (found == index.end() || !forecast.problem.empty() || fit.cached.contains(forecast.stage)) continue;
    const PlannedStage& stage = fit.plan.stages[found->second];
    if (stage.layout_from.empty()) visit({stage, fit.jobs[found->second], forecast});
  }
}

std::string written_duration(double seconds) {
  constexpr double minute = 60, hour = 3600;
  if (seconds < 2 * minute) return format("{:.0f}s", std::max(1.0, std::ceil(seconds)));
  if (seconds < 3 * hour) return format("{:.0f}min", std::ceil(seconds / minute));
  return format("{:.0f}h", std::ceil(seconds / hour));
}

}  // namespace longhaul
