#include "orchestrator/fit/budget_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/text.h"

namespace longhaul {
namespace {

struct Cost {
  std::string stage;
  double rate = 0;  // units of the budget in an hour
  double step_low = 0, low = 0, middle = 0, high = 0;
  std::int64_t steps = 0;
};

struct Budget {
  std::string key, unit;  // "budget", "node-hours"
  double amount = 0;
  SourcePos where;
};

std::string hours(double amount) {
  return amount >= 100 ? format("{:.0f}", amount) : amount >= 1 ? format("{:.1f}", amount) : format("{:.2g}", amount);
}

void check_one(const Budget& budget, const std::vector<Cost>& costs, FitFindings& report) {
  if (budget.amount <= 0) return;
  double low = 0, high = 0;
  const Cost* largest = nullptr;
  for (const Cost& cost : costs) {
    if (cost.step_low > budget.amount)
      return report.refuse(
          FitSubject::budget, budget.where,
          format("{} = {:g} {} is less than one step of stage.{}, which costs at least {}", budget.key, budget.amount,
                 budget.unit, cost.stage, hours(cost.step_low)),
          format("{} = {:.0f} holds {}", budget.key, std::ceil(1.02 * (cost.steps > 0 ? cost.high : 2 * cost.step_low)),
                 cost.steps > 0 ? "all its steps" : "one step"));
    low += cost.low, high += cost.high;
    if (cost.steps > 0 && (largest == nullptr || cost.middle > largest->middle)) largest = &cost;
  }
  if (largest == nullptr || high <= budget.amount) return;
  double others = 0;
  for (const Cost& cost : costs)
    if (&cost != largest) others += cost.middle;
  const double left = std::max(0.0, budget.amount - others);
  const auto steps = static_cast<std::int64_t>(left * static_cast<double>(largest->steps) / largest->middle);
  const std::string what = format("trainings cost {} to {} {} by the forecast, and {} = {:g}", hours(low), hours(high),
                                  budget.unit, budget.key, budget.amount);
  const std::string fits =
      steps > 0 ? format(", and steps = {} of stage.{} fit", steps, largest->stage) : std::string();
  const std::string remedy = format("{} = {:.0f} holds all of them{}", budget.key, std::ceil(1.02 * high), fits);
  if (low > budget.amount)
    report.refuse(FitSubject::budget, budget.where, what, remedy);
  else
    report.warn(FitSubject::budget, budget.where, what + ": it may be used up before they end", remedy);
}

std::vector<Cost> costs_of(const FitCase& fit, bool gpu_hours) {
  std::vector<Cost> costs;
  for_each_training(fit, [&](const FitTraining& t) {
    const double nodes = t.stage.common.nodes_with_spares();
    const double rate = (gpu_hours ? nodes * t.job.gpus_per_node : nodes) / 3600;
    Cost cost{t.stage.id(), rate, rate * t.step_low()};
    if (t.forecast.steps > 0) {
      cost.low = rate * t.low(), cost.middle = rate * t.forecast.duration(), cost.high = rate * t.high();
      cost.steps = t.forecast.steps;
    }
    if (rate > 0) costs.push_back(cost);
  });
  return costs;
}

}  // namespace

void check_budget_fit(const FitCase& fit, FitFindings& report) {
  check_one({"budget", "node-hours", fit.plan.budget_node_hours, fit.written.workflow_place("budget")},
            costs_of(fit, false), report);
  const auto origin = fit.site.origins.find("budget_gpu_hours");
  const SourcePos where = origin == fit.site.origins.end() ? SourcePos{} : origin->second.where;
  check_one({"budget_gpu_hours", "GPU-hours", fit.site.config.budget_gpu_hours, where}, costs_of(fit, true), report);
}

}  // namespace longhaul
