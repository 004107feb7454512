#include "orchestrator/fit/budget_fit.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "base/text/text.h"
#include "orchestrator/fit/stage_cost.h"

namespace longhaul {
namespace {

struct Budget {
  std::string key, unit;  // "budget", "node-hours"
  double amount = 0;
  SourcePos where;
  double StageCost::* rate = nullptr;  // of what it counts hours
};

std::string hours(double amount) {
  return amount >= 100 ? format("{:.0f}", amount) : amount >= 1 ? format("{:.1f}", amount) : format("{:.2g}", amount);
}

class BudgetCheck {
 public:
  BudgetCheck(const Budget& budget, const std::vector<StageCost>& costs, FitFindings& report)
      : budget_(budget), report_(report) {
    for (const StageCost& cost : costs)
      if (cost.*budget.rate > 0 || cost.source == CostSource::trials) costs_.push_back(&cost);
  }

  void run() {
    if (budget_.amount <= 0 || !one_step_fits()) return;
    const Part forecast = part(CostSource::forecast), limits = part(CostSource::limit);
    const double high = forecast.high + limits.high;
    if (high <= budget_.amount || high <= 0) {
      if (const std::string more = not_counted(); !more.empty())
        report_.note(format("{} = {:g}: the stages cost {}{}", budget_.key, budget_.amount,
                            high > 0 ? parts_text(forecast, limits) : "nothing that anybody knows", more));
      return;
    }
    const std::string what = format("the stages cost {}, and {} = {:g}{}", parts_text(forecast, limits), budget_.key,
                                    budget_.amount, not_counted());
    const std::string remedy =
        format("{} = {:.0f} holds all of them{}", budget_.key, std::ceil(1.02 * high), fitting());
    if (forecast.low > budget_.amount)
      report_.refuse(FitSubject::budget, budget_.where, what, remedy);
    else
      report_.warn(FitSubject::budget, budget_.where, what + ": it may be used up before they end", remedy);
  }

 private:
  struct Part {
    double low = 0, high = 0;
    std::vector<const StageCost*> stages;  // those that may cost most first
  };

  // Of a duration, in units of the budget.
  double units(const StageCost& cost, double seconds) const { return cost.*budget_.rate * seconds / 3600; }

  Part part(CostSource source) const {
    Part all;
    for (const StageCost* cost : costs_) {
      if (cost->source != source) continue;
      all.low += units(*cost, cost->low), all.high += units(*cost, cost->high);
      all.stages.push_back(cost);
    }
    std::ranges::stable_sort(all.stages, std::greater<>(), [&](const StageCost* c) { return units(*c, c->high); });
    return all;
  }

  static std::string names(const std::vector<const StageCost*>& stages) {
    constexpr std::size_t named = 3;
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < stages.size() && i < named; ++i) texts.push_back(stages[i]->stage->id());
    if (stages.size() > named) texts.push_back(format("{} more", stages.size() - named));
    return join(texts, ", ");
  }

  // "120 to 140 node-hours by the forecast (pretrain), up to 12 by their limits (deploy)"
  std::string parts_text(const Part& forecast, const Part& limits) const {
    std::vector<std::string> parts;
    if (!forecast.stages.empty())
      parts.push_back(format("{} to {} {} by the forecast ({})", hours(forecast.low), hours(forecast.high),
                             budget_.unit, names(forecast.stages)));
    if (!limits.stages.empty())
      parts.push_back(format("up to {} {}by their limits ({})", hours(limits.high),
                             parts.empty() ? budget_.unit + " " : std::string(), names(limits.stages)));
    return join(parts, ", ");
  }

  std::string not_counted() const {
    const std::vector<const StageCost*> stages = part(CostSource::unknown).stages,
                                        trials = part(CostSource::trials).stages;
    std::vector<std::string> parts;
    if (!stages.empty()) parts.push_back(names(stages) + ", without forecast and limit");
    if (!trials.empty()) parts.push_back("the trials of " + names(trials));
    return parts.empty() ? std::string() : format(" (not counted: {})", join(parts, "; "));
  }

  bool one_step_fits() {
    for (const StageCost* cost : costs_) {
      const double step = units(*cost, cost->step_low);
      if (step <= budget_.amount) continue;
      report_.refuse(FitSubject::budget, budget_.where,
                     format("{} = {:g} {} is less than one step of stage.{}, which costs at least {}", budget_.key,
                            budget_.amount, budget_.unit, cost->stage->id(), hours(step)),
                     format("{} = {:.0f} holds {}", budget_.key,
                            std::ceil(1.02 * (cost->steps > 0 ? units(*cost, cost->high) : 2 * step)),
                            cost->steps > 0 ? "all its steps" : "one step"));
      return false;
    }
    return true;
  }

  // Steps of the training that costs most, with which all of it fits.
  std::string fitting() const {
    const StageCost* largest = nullptr;
    double all = 0;
    for (const StageCost* cost : costs_) {
      all += units(*cost, cost->middle);
      if (cost->steps > 0 && (largest == nullptr || units(*cost, cost->middle) > units(*largest, largest->middle)))
        largest = cost;
    }
    if (largest == nullptr) return {};
    const double its = units(*largest, largest->middle), left = budget_.amount - (all - its);
    const auto steps = static_cast<std::int64_t>(std::max(0.0, left) * static_cast<double>(largest->steps) / its);
    return steps > 0 && steps < largest->steps ? format(", and steps = {} of stage.{} fit", steps, largest->stage->id())
                                               : std::string();
  }

  const Budget& budget_;
  FitFindings& report_;
  std::vector<const StageCost*> costs_;  // those that use what the budget counts
};

}  // namespace

void check_budget_fit(const FitCase& fit, FitFindings& report) {
  const std::vector<StageCost> costs = stage_costs(fit);
  const Budget of_run{"budget", "node-hours", fit.plan.budget_node_hours, fit.written.workflow_place("budget"),
                      &StageCost::nodes};
  BudgetCheck(of_run, costs, report).run();
  const auto origin = fit.site.origins.find("budget_gpu_hours");
  const SourcePos where = origin == fit.site.origins.end() ? SourcePos{} : origin->second.where;
  const Budget of_site{"budget_gpu_hours", "GPU-hours", fit.site.config.budget_gpu_hours, where, &StageCost::gpus};
  BudgetCheck(of_site, costs, report).run();
}

}  // namespace longhaul
