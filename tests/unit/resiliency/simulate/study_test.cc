// The simulator against what can be computed, against the optimum of intervals, against published figures; and that it
// is the policy that decides.
#include "resiliency/simulate/study.h"

#include <doctest/doctest.h>

#include <cmath>
#include <ctime>
#include <numeric>

#include "base/files/files.h"
#include "base/text/text.h"
#include "resiliency/checkpoint_interval.h"
#include "tests/support/expected_time.h"
#include "tests/support/sanitized.h"

namespace longhaul {
namespace {

SimFault fault_kind(const std::string& name, double count) {
  SimFault fault;
  fault.name = name;
  fault.count = count;
  fault.scope = "host";
  fault.detect = {0};
  return fault;
}

// One kind of fault, once in `mtbf_s`, on 1,024 GPUs; a restart is nothing but start.
Scenario plain_scenario(double stall_s, double mtbf_s, double restart_s) {
  Scenario scenario;
  scenario.header.name = "plain";
  scenario.cluster.gpus = 1024;
  scenario.training.length = {40 * 86'400.0};
  scenario.training.step = {1};
  scenario.saves.global.stall = {stall_s};
  scenario.restart.in_job.start = {restart_s};
  scenario.observed.length = {mtbf_s};
  scenario.faults = {fault_kind("fault", 1)};
  return scenario;
}

Estimate effective_over(const Scenario& scenario, int trials, double interval_s = 0) {
  std::vector<double> values;
  for (int trial = 0; trial < trials; ++trial) values.push_back(run_trial(scenario, 7, trial, interval_s).effective);
  return estimate_of(values);
}

// Nothing but the scenario itself is simulated.
Scenario alone(Scenario scenario) {
  scenario.vary.costs.clear();
  scenario.vary.intervals.clear();
  scenario.vary.spares = {scenario.cluster.spares};
  return scenario;
}

}  // namespace

TEST_CASE("the simulated effective time is that of the expected-time model, within a point") {
  struct Case {
    double stall_s, mtbf_s, restart_s, interval_s;
  };
  for (const Case& c :
       {Case{10, 7200, 60, 400}, Case{60, 7200, 600, 900}, Case{5, 1800, 300, 100}, Case{30, 86'400, 900, 2000}}) {
    if (testing::sanitized && c.mtbf_s < 86'400) continue;  // the fewer faults, the fewer things to simulate
    CAPTURE(c.mtbf_s);
    const double expected = 100 / testing::expected_time_factor(c.interval_s, c.stall_s, c.mtbf_s, c.restart_s);
    const Estimate simulated = effective_over(plain_scenario(c.stall_s, c.mtbf_s, c.restart_s), 12, c.interval_s);
    CAPTURE(100 * simulated.mean);
    CAPTURE(expected);
    CHECK(std::fabs(100 * simulated.mean - expected) < 1);
  }
}

TEST_CASE("the interval that is chosen online, and Daly's, are within 1 % of the best fixed one") {
  const Scenario scenario = plain_scenario(20, 10'000, 120);
  if (testing::sanitized) {  // one of its points; the grid is the release build's
    CHECK(effective_over(scenario, 1).mean > 0.5);
    return;
  }
  const double daly_s = daly_interval_s(20, 10'000);
  double best = 0;
  for (double interval_s = daly_s / 4; interval_s < 4 * daly_s; interval_s *= 1.15)
    best = std::max(best, effective_over(scenario, 8, interval_s).mean);
  CHECK(effective_over(scenario, 8, daly_s).mean > 0.99 * best);
  CHECK(effective_over(scenario, 8).mean > 0.99 * best);
  // And the grid is wide enough to show it: a quarter of it costs more than that.
  CHECK(effective_over(scenario, 8, daly_s / 4).mean < 0.98 * best);
}

TEST_CASE("classes add up, and the same seed meets the same faults") {
  const Scenario scenario = plain_scenario(10, 3600, 60);
  const SimulatedTrial a = run_trial(scenario, 3, 1, 0, true), b = run_trial(scenario, 3, 1);
  CHECK(std::accumulate(a.shares.begin(), a.shares.end(), 0.0) == doctest::Approx(1));
  CHECK(a.effective == b.effective);
  CHECK(a.faults == b.faults);
  CHECK(a.days.size() == 40);
  CHECK(b.days.empty());
  CHECK(run_trial(scenario, 4, 1).faults != a.faults);
  // A dearer restart meets as many faults at the same times.
  CHECK(run_trial(scenario.with_costs(2), 3, 1).faults == a.faults);
  CHECK(run_trial(scenario.with_costs(2), 3, 1).effective < a.effective);
  if (testing::sanitized) return;
  const Study one = run_study(scenario, 2, 9, 1), two = run_study(scenario, 2, 9, 2);  // trials, seed, threads
  CHECK(one.effective.mean == two.effective.mean);
  CHECK(one.costs.size() == 5);
  CHECK(one.costs[2].difference.mean == 0);
}

TEST_CASE("a bug of the user's stops the simulated training: no host and no job is spent on it") {
  Scenario scenario = plain_scenario(10, 600, 30);
  scenario.faults[0].scope = "user";
  scenario.faults[0].group = "application";
  scenario.cluster.spares = 8;
  for (const bool saves : {false, true}) {
    CAPTURE(saves);
    scenario.saves.global.every_steps = saves ? 0 : 1'000'000;
    const SimulatedTrial result = run_trial(scenario, 1, 0);
    // As in a job, each new checkpoint fills the budget up: a bug that lets one through each time is tried again.
    CHECK((result.operators > 0) == !saves);
    CHECK(result.tiers[static_cast<std::size_t>(RestartTier::swap)] == 0);
    CHECK(result.tiers[static_cast<std::size_t>(RestartTier::new_job)] == 0);
    CHECK(result.hosts_left == 0);
  }
}

TEST_CASE("lemons are left at their second fault, and leaving them pays") {
  Scenario scenario = plain_scenario(5, 3600, 300);
  scenario.cluster.lemon_share = 0.01;  // one of 128
  scenario.cluster.lemon_factor = 200;
  scenario.cluster.repair = {20 * 86'400.0};
  scenario.restart.new_job.queue = {3600};
  const SimulatedTrial without = run_trial(scenario, 1, 0);
  CHECK(without.tiers[static_cast<std::size_t>(RestartTier::swap)] == 0);
  scenario.cluster.spares = 4;
  const SimulatedTrial with = run_trial(scenario, 1, 0);
  CHECK(with.tiers[static_cast<std::size_t>(RestartTier::swap)] > 0);
  CHECK(with.hosts_left > 0);
  // 200 of 327 faults were the lemon's: without it less than half of them are left.
  CHECK(with.faults < 0.5 * 40 * 24);
}

TEST_CASE("without spares a training shrinks, goes on slower, and grows again when a host is back") {
  Scenario scenario = plain_scenario(5, 6 * 3600, 30);
  scenario.faults[0].loses_host = true;
  scenario.training.replicas = 16;
  scenario.training.replicas_min = 12;
  scenario.restart.shrink.start = scenario.restart.swap.start = {30};
  scenario.cluster.repair = {6 * 3600.0};
  const SimulatedTrial shrunk = run_trial(scenario, 1, 0);
  CHECK(shrunk.tiers[static_cast<std::size_t>(RestartTier::shrink)] > 50);
  // One replica of 16 is missing on average; all of the time is used, at 15/16 of the speed.
  CHECK(shrunk.shares[0] > 0.96);
  CHECK(shrunk.effective < shrunk.shares[0] - 0.04);
  CHECK(shrunk.effective > 0.87);
  scenario.cluster.spares = 8;
  CHECK(run_trial(scenario, 1, 0).effective > shrunk.effective + 0.04);
}

TEST_CASE("a copy in memory serves all tiers but a new job") {
  Scenario scenario = plain_scenario(60, 3600, 30);
  const double without = run_trial(scenario, 1, 0).effective;
  scenario.saves.memory.enabled = true;
  scenario.saves.memory.stall = {0.5};
  const SimulatedTrial with = run_trial(scenario, 1, 0);
  CHECK(with.effective > without + 0.1);
  CHECK(with.interval_s < 100);
  for (int tier = 0; tier < static_cast<int>(RestartTier::stop); ++tier)
    scenario.restart.of(static_cast<RestartTier>(tier)).copy = "global";
  CHECK(run_trial(scenario, 1, 0).effective < with.effective - 0.05);
}

TEST_CASE("a file system that stands still costs the time that it does, and nobody's host") {
  Scenario scenario = plain_scenario(10, 86'400, 60);
  scenario.faults[0].scope = "file_system";
  scenario.faults[0].lasts = {180};
  scenario.cluster.spares = 4;
  const SimulatedTrial waited = run_trial(scenario, 1, 0);
  CHECK(waited.faults > 20);
  CHECK(waited.standstills == waited.faults);
  CHECK(waited.hosts_left == 0);
  CHECK(waited.lost_steps == 0);
  CHECK(std::accumulate(waited.tiers.begin(), waited.tiers.end(), 0) == 0);
  // What is missing are saves and three minutes for each.
  Scenario quiet = scenario;
  quiet.faults[0].lasts = {0.001};
  const double stood_still = waited.faults * 180 / scenario.training.length.value;
  CHECK(run_trial(quiet, 1, 0).effective - waited.effective == doctest::Approx(stood_still).epsilon(0.05));
  // As it was: every host of the job is given up, and the next job waits in the queue.
  FormerPolicies former;
  former.standstill_is_a_fault = true;
  scenario.restart.new_job.queue = {600};
  const SimulatedTrial given_up = run_trial(scenario, 1, 0, 0, false, former);
  CHECK(given_up.tiers[static_cast<std::size_t>(RestartTier::new_job)] == given_up.faults);
  CHECK(given_up.hosts_left == given_up.faults * scenario.hosts());
  CHECK(given_up.effective < waited.effective);
}

TEST_CASE(
    "what stands still for longer than anybody's patience is given up, loaded again when it is back, and accuses "
    "nobody") {
  Scenario scenario = plain_scenario(10, 86'400, 60);
  scenario.faults[0].scope = "file_system";
  scenario.faults[0].lasts = {3600};
  scenario.cluster.spares = 4;
  const SimulatedTrial result = run_trial(scenario, 1, 0);
  CHECK(result.hosts_left == 0);
  CHECK(result.tiers[static_cast<std::size_t>(RestartTier::in_job)] == result.faults);
  CHECK(result.effective < 1 - result.faults * 3600 / scenario.training.length.value);
}

TEST_CASE("a rack takes all of its hosts at once, and as many spares") {
  Scenario scenario = plain_scenario(10, 7 * 86'400, 60);
  scenario.faults[0].loses_host = true;
  scenario.faults[0].hosts = 8;
  scenario.cluster.spares = 8;
  scenario.cluster.repair = {3600};
  const SimulatedTrial swapped = run_trial(scenario, 2, 0);
  REQUIRE(swapped.faults > 2);
  CHECK(swapped.tiers[static_cast<std::size_t>(RestartTier::swap)] == swapped.faults);
  CHECK(swapped.hosts_left == 8 * swapped.faults);
  scenario.cluster.spares = 7;
  CHECK(run_trial(scenario, 2, 0).tiers[static_cast<std::size_t>(RestartTier::new_job)] > 0);
}

TEST_CASE("the retry storm: what no checkpoint keeps is no progress, and somebody is called") {
  Scenario scenario = plain_scenario(10, 600, 30);  // a fault every ten minutes, a checkpoint every ten hours
  scenario.faults[0].scope = "rank";
  scenario.saves.global.every_steps = 36'000;
  scenario.training.length = {2 * 86'400.0};
  const SimulatedTrial now = run_trial(scenario, 1, 0);
  CHECK(now.operators > 10);
  FormerPolicies former;
  former.anything_is_progress = true;
  const SimulatedTrial before = run_trial(scenario, 1, 0, 0, false, former);
  CHECK(before.operators == 0);
  CHECK(before.effective < 0.1);  // and so for weeks
}

TEST_CASE("a save waits for the one before, and the last one of a training ends however long it takes") {
  Scenario scenario = plain_scenario(1, 30 * 86'400, 60);
  scenario.saves.global.write = {90};
  scenario.saves.global.every_steps = 30;  // of 1 s: each waits for a minute
  const SimulatedTrial result = run_trial(scenario, 1, 0);
  CHECK(result.effective == doctest::Approx(30.0 / 91).epsilon(0.02));
  CHECK(result.ends);
  FormerPolicies former;
  former.last_write_is_a_hang = true;
  CHECK_FALSE(run_trial(scenario, 1, 0, 0, false, former).ends);
}

TEST_CASE("bounds: Student's t and shares of trials") {
  CHECK(student_t_975(4) == doctest::Approx(2.776).epsilon(0.002));
  CHECK(student_t_975(9) == doctest::Approx(2.262).epsilon(0.002));
  CHECK(student_t_975(19) == doctest::Approx(2.093).epsilon(0.002));
  const Estimate estimate = estimate_of({1, 2, 3, 4, 5});
  CHECK(estimate.mean == doctest::Approx(3));
  CHECK(estimate.half_width == doctest::Approx(2.776 * std::sqrt(2.5 / 5)).epsilon(0.002));
  CHECK(estimate.low == 1);
  CHECK(estimate.high == 5);
}

TEST_CASE("the shipped scenarios give their published figures, and a training of 54 days takes well under a second") {
  const std::string folder = LONGHAUL_SOURCE_DIR "/workflows/simulations";
  const auto names = list_directory(folder);
  REQUIRE(names.ok());
  int within_points = 0;
  for (const std::string& name : *names) {
    if (!ends_with(name, ".toml")) continue;
    CAPTURE(name);
    const auto text = read_file(join_path(folder, name), 1 << 20);
    REQUIRE(text.ok());
    const auto scenario = parse_scenario(*text, name);
    REQUIRE_MESSAGE(scenario.ok(), scenario.error().message());
    CHECK(!scenario->header.sources.empty());
    const std::clock_t begun = std::clock();
    (void)run_trial(scenario->at_scale(), 1, 0);
    const double cpu_s = static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
    CHECK(cpu_s < 1);
    if (testing::sanitized) continue;  // bounds of figures are the release build's
    const Study study = run_study(alone(*scenario), 6, -1, 1);
    CHECK(!study.expectations.empty());
    for (const ExpectationResult& result : study.expectations) {
      CAPTURE(result.simulated.mean);
      CHECK_MESSAGE(result.met, result.expected.name);
      if (!result.expected.at_least && result.expected.within <= 2) ++within_points;
    }
    CHECK(study.operators.mean < 3);
  }
  CHECK((testing::sanitized || within_points >= 3));
}

}  // namespace longhaul
