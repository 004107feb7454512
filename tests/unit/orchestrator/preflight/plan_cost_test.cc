// What a whole plan costs: sums of what runs, the longest way through it, and what nobody predicts.
#include "orchestrator/preflight/plan_cost.h"

#include <doctest/doctest.h>

#include "base/text/text.h"

namespace longhaul {
namespace {

PlannedStage stage(const std::string& id, int nodes, std::vector<std::string> needs = {}, double limit_s = 0) {
  PlannedStage made;
  made.stage = id;
  made.kind = "pretrain";
  made.needs = std::move(needs);
  made.common.nodes = nodes;
  made.common.time_limit.value = limit_s;
  return made;
}

// Steps of a second, of which 95 in 100 take 0.9 to 1.2.
TrainingForecast forecast(const std::string& id, std::int64_t steps, double energy_kwh = 0) {
  TrainingForecast made;
  made.stage = id;
  made.steps = steps;
  made.time.parts[0] = 1;
  made.low = 0.9, made.high = 1.2;
  made.energy_kwh = energy_kwh;
  made.on_gpus = energy_kwh > 0;
  made.energy_from = "700 W of a data sheet";
  return made;
}

StageReason cached(const std::string& id) {
  StageReason reason;
  reason.stage = id;
  reason.cached = true;
  return reason;
}

}  // namespace

TEST_CASE("node-hours are summed, days are those of the longest way, and what is cached costs nothing") {
  RunPlan plan;
  plan.stages = {stage("old", 8), stage("a", 2, {"old"}), stage("b", 4, {"old"}), stage("c", 1, {"a", "b"})};
  const std::vector<TrainingForecast> forecasts = {forecast("old", 36'000), forecast("a", 3'600),
                                                   forecast("b", 7'200, 10), forecast("c", 1'800)};
  const PlanCost cost = cost_of_plan(plan, {}, forecasts, {cached("old")});
  CHECK(cost.predicted == std::vector<std::string>{"a", "b", "c"});
  CHECK(cost.not_predicted.empty());
  CHECK(cost.node_hours.expected == doctest::Approx(2 * 1 + 4 * 2 + 0.5));
  CHECK(cost.node_hours.low == doctest::Approx(0.9 * 10.5));
  CHECK(cost.node_hours.high == doctest::Approx(1.2 * 10.5));
  CHECK(cost.seconds.expected == doctest::Approx(7'200 + 1'800));
  CHECK(cost.seconds.low == doctest::Approx(0.9 * 9'000));
  CHECK(cost.seconds.high == doctest::Approx(1.2 * 9'000));
  REQUIRE(cost.energy_kwh);
  CHECK(cost.energy_kwh->low == doctest::Approx(9));
  CHECK(cost.energy_kwh->expected == doctest::Approx(10));
  CHECK(cost.energy_kwh->high == doctest::Approx(12));
  CHECK(cost_text(cost).find("10.5 node-hours (9.45 to 12.6)") != std::string::npos);
  // A job holds its spare nodes as long as the others.
  plan.stages[1].common.resiliency.spares = 1;
  const std::vector<JobPlan> jobs(plan.stages.size());
  CHECK(cost_of_plan(plan, jobs, forecasts, {cached("old")}).node_hours.expected ==
        doctest::Approx(3 * 1 + 4 * 2 + 0.5));
  CHECK(cost_text(cost).find(cost.energy_from[0]) != std::string::npos);
}

TEST_CASE("work on processors is in the cost with its interval, and trials are named beside it") {
  RunPlan plan;
  plan.stages = {stage("corpus", 1), stage("layout", 4, {}, 3'600), stage("rates", 2)};
  plan.stages[0].kind = "curate", plan.stages[0].forecast_s = 7'200;
  plan.stages[1].kind = "tune", plan.stages[2].kind = "search";
  PlanCost cost = cost_of_plan(plan, {}, {}, {});
  CHECK(cost.predicted == std::vector<std::string>{"corpus"});
  CHECK(cost.by_work == std::vector<std::string>{"corpus"});
  CHECK(cost.trials == std::vector<std::string>{"layout", "rates"});
  CHECK(cost.not_predicted.empty());
  CHECK(cost.not_predicted_node_hours == 0);
  CHECK(cost.node_hours.low == doctest::Approx(2.0 / 3));
  CHECK(cost.node_hours.expected == doctest::Approx(2));
  CHECK(cost.node_hours.high == doctest::Approx(6));
  CHECK(cost_text(cost) ==
        "cost of corpus: 2 node-hours (0.667 to 6), 2h 00m (40m 00s to 6h 00m) without queues and faults\n"
        "corpus: by rates of one machine's processors, a third to three times as long elsewhere\n"
        "not predicted: the trials of layout, rates, whose number and length are decided on the way\n");
  CHECK(cost_value(cost).find("trials_not_predicted")->size() == 2);
  CHECK(cost_value(cost).find("by_rates_of_one_machine")->size() == 1);
  plan.stages[0].common.time_limit.value = 10'800;
  cost = cost_of_plan(plan, {}, {}, {});
  CHECK(cost.node_hours.high == doctest::Approx(3));  // it ends by then
  plan.stages.erase(plan.stages.begin());
  CHECK(cost_text(cost_of_plan(plan, {}, {}, {})) ==
        "not predicted: the trials of layout, rates, whose number and length are decided on the way\n");
}

TEST_CASE("stages that nothing predicts are named, with what their limits allow") {
  RunPlan plan;
  plan.stages = {stage("a", 1, {}, 3'600), stage("b", 2, {}, 7'200)};
  PlanCost cost = cost_of_plan(plan, {}, {}, {});
  CHECK(cost.not_predicted == std::vector<std::string>{"a", "b"});
  CHECK(cost.not_predicted_ends);
  CHECK(cost.not_predicted_node_hours == doctest::Approx(5));
  CHECK(cost_text(cost) == "not predicted: a, b; at most 5 node-hours by their time limits\n");
  PlanCost many = cost;  // a line stays a line, however many there are
  many.not_predicted.assign(5000, "s");
  CHECK(cost_text(many).find("s, s and 4980 more; at most 5 node-hours") != std::string::npos);
  CHECK(cost_value(cost).find("node_hours")->is_null());
  plan.stages[1].common.time_limit.value = 0;
  cost = cost_of_plan(plan, {}, {}, {});
  CHECK_FALSE(cost.not_predicted_ends);
  CHECK(cost_text(cost).find("a time_limit would bound") != std::string::npos);
  CHECK(cost_text(cost_of_plan(plan, {}, {}, {cached("a"), cached("b")})) == "cost: none, all is cached\n");
  TrainingForecast on_processors = forecast("a", 100, 5);  // whose power nobody says
  on_processors.on_gpus = false;
  CHECK_FALSE(cost_of_plan(plan, {}, {on_processors}, {}).energy_kwh);
  TrainingForecast failed = forecast("a", 100);
  failed.problem = "no figures of this GPU";
  CHECK(cost_of_plan(plan, {}, {failed}, {}).predicted.empty());
}

}  // namespace longhaul
