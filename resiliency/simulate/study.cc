#include "resiliency/simulate/study.h"

#include <algorithm>
#include <cmath>

#include "base/system/parallel_for.h"
#include "resiliency/checkpoint_interval.h"

namespace longhaul {
namespace {

using Trials = std::vector<SimulatedTrial>;

struct StudyRunner {
  std::uint64_t seed;
  int trials, threads;

  Trials run(const Scenario& scenario, double interval_s = 0, bool with_days = false) const {
    Trials results(static_cast<std::size_t>(trials));
    parallel_for(results.size(), threads, [&](std::size_t i) {
      results[i] = run_trial(scenario, seed, static_cast<int>(i), interval_s, with_days && i == 0);
    });
    return results;
  }
};

template <class Get>
Estimate estimate(const Trials& trials, const Get& get) {
  std::vector<double> values;
  for (const SimulatedTrial& trial : trials) values.push_back(static_cast<double>(get(trial)));
  return estimate_of(std::move(values));
}

double effective_of(const SimulatedTrial& trial) {
  return trial.effective;
}

Variant variant_of(double value, const Trials& trials, const Trials& base) {
  Variant variant;
  variant.value = value;
  variant.effective = estimate(trials, effective_of);
  std::vector<double> differences;
  for (std::size_t i = 0; i < trials.size(); ++i) differences.push_back(trials[i].effective - base[i].effective);
  variant.difference = estimate_of(std::move(differences));
  return variant;
}

std::vector<std::int64_t> spares_to_try(const Scenario& scenario) {
  if (!scenario.vary.spares.empty()) return scenario.vary.spares;
  const std::int64_t spares = scenario.cluster.spares;
  std::vector<std::int64_t> counts = {0, spares, spares + 1, 2 * spares};
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

double figure_percent(const SimulatedTrial& trial, const std::string& figure) {
  for (int time = 0; time < time_classes; ++time)
    if (figure == to_string(static_cast<TimeClass>(time))) return 100 * trial.shares[static_cast<std::size_t>(time)];
  return 100 * trial.effective;
}

ExpectationResult compare(const SimExpectation& expected, const Trials& trials) {
  ExpectationResult result;
  result.expected = expected;
  result.simulated =
      estimate(trials, [&](const SimulatedTrial& trial) { return figure_percent(trial, expected.figure); });
  result.met = expected.at_least ? result.simulated.mean >= expected.percent
                                 : std::fabs(result.simulated.mean - expected.percent) <= expected.within;
  return result;
}

void fill_base(Study& study, const Trials& base) {
  study.effective = estimate(base, effective_of);
  study.interval_s = estimate(base, [](const SimulatedTrial& trial) { return trial.interval_s; });
  study.faults = estimate(base, [](const SimulatedTrial& trial) { return trial.faults; });
  study.standstills = estimate(base, [](const SimulatedTrial& trial) { return trial.standstills; });
  study.lost_steps = estimate(base, [](const SimulatedTrial& trial) { return trial.lost_steps; });
  study.hosts_left = estimate(base, [](const SimulatedTrial& trial) { return trial.hosts_left; });
  study.operators = estimate(base, [](const SimulatedTrial& trial) { return trial.operators; });
  for (std::size_t time = 0; time < study.shares.size(); ++time)
    study.shares[time] = estimate(base, [time](const SimulatedTrial& trial) { return trial.shares[time]; });
  for (const SimulatedTrial& trial : base)
    for (std::size_t tier = 0; tier < study.tiers.size(); ++tier)
      study.tiers[tier] += trial.tiers[tier] / static_cast<double>(base.size());
  study.days = base.front().days;
}

}  // namespace

double student_t_975(int degrees) {
  constexpr double z = 1.959963984540054;
  const double n = std::max(1, degrees), z2 = z * z;
  const double g1 = (z2 + 1) * z / 4;
  const double g2 = ((5 * z2 + 16) * z2 + 3) * z / 96;
  const double g3 = (((3 * z2 + 19) * z2 + 17) * z2 - 15) * z / 384;
  const double g4 = ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) * z / 92'160;
  return z + (g1 + (g2 + (g3 + g4 / n) / n) / n) / n;
}

Estimate estimate_of(std::vector<double> values) {
  Estimate estimate;
  if (values.empty()) return estimate;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) estimate.mean += value / count;
  double square = 0;
  for (const double value : values) square += (value - estimate.mean) * (value - estimate.mean);
  if (values.size() > 1)
    estimate.half_width = student_t_975(static_cast<int>(values.size()) - 1) * std::sqrt(square / (count - 1) / count);
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) { return values[static_cast<std::size_t>(std::lround(share * (count - 1)))]; };
  estimate.low = at(0.05);
  estimate.high = at(0.95);
  return estimate;
}

bool Study::met() const {
  return std::all_of(expectations.begin(), expectations.end(),
                     [](const ExpectationResult& result) { return result.met; });
}

Study run_study(const Scenario& scenario, int trials, std::int64_t seed, int threads) {
  Study study;
  study.name = scenario.header.name;
  study.description = scenario.header.description;
  study.sources = scenario.header.sources;
  study.assumed = scenario.assumed();
  study.measured = scenario.measured;
  study.trials = trials > 0 ? trials : scenario.header.trials;
  study.seed = static_cast<std::uint64_t>(seed >= 0 ? seed : scenario.header.seed);
  study.hosts = scenario.hosts();
  study.length_s = scenario.training.length.value;
  study.mtbf_s = scenario.mtbf_s();
  const SimSaves& saves = scenario.saves.memory.enabled ? scenario.saves.memory : scenario.saves.global;
  const double stall_s = std::max(1e-3, saves.stall.value);
  study.daly_interval_s = daly_interval_s(stall_s, study.mtbf_s);
  study.young_interval_s = young_interval_s(stall_s, study.mtbf_s);

  const StudyRunner runner{study.seed, study.trials, threads};
  const Scenario scaled = scenario.at_scale();
  const Trials base = runner.run(scaled, 0, true);
  fill_base(study, base);
  for (const double factor : scenario.vary.costs)
    study.costs.push_back(variant_of(factor, runner.run(scaled.with_costs(factor)), base));
  for (const double factor : scenario.vary.intervals)
    study.intervals.push_back(variant_of(factor, runner.run(scaled, factor * study.daly_interval_s), base));
  for (const std::int64_t spares : spares_to_try(scenario)) {
    Scenario other = scaled;
    other.cluster.spares = static_cast<int>(spares);
    study.spares.push_back(variant_of(static_cast<double>(spares), runner.run(other), base));
  }
  for (const SimExpectation& expected : scenario.expectations) study.expectations.push_back(compare(expected, base));
  return study;
}

}  // namespace longhaul
