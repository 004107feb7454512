// Which trials are run, stopped and believed. Results are made up; random ones come from a seed that is printed.
#include "autotune/trials/confirmation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/text/text.h"

namespace longhaul {
namespace {

Trial candidate(const std::string& name, double predicted = 0, double sigma = 0, std::int64_t bytes = 0) {
  Trial trial;
  trial.name = name;
  trial.steps = 20;
  trial.predicted_seconds = predicted;
  trial.predicted_sigma = sigma;
  trial.predicted_bytes = bytes;
  return trial;
}

// Steps that scatter by 1 % around `seconds`, in a fixed pattern.
std::vector<double> steps_of(double seconds, int count = 15) {
  std::vector<double> steps;
  for (int i = 0; i < count; ++i) steps.push_back(seconds * (1 + 0.01 * ((i * 7) % 5 - 2)));
  return steps;
}

TrialResult confirmed(const std::string& name, double seconds, TrialOutcome outcome = TrialOutcome::measured,
                      int count = 15) {
  TrialResult result;
  result.name = name;
  result.outcome = outcome;
  result.step_seconds = steps_of(seconds, count);
  result.steps_done = count + 5;
  return result;
}

TrialResult ended_by(const std::string& name, TrialOutcome outcome, const std::string& what = {}) {
  TrialResult result;
  result.name = name;
  result.outcome = outcome;
  result.what = what;
  return result;
}

const CandidateVerdict& verdict_of(const ConfirmationDecision& decision, const std::string& name) {
  for (const CandidateVerdict& verdict : decision.candidates)
    if (verdict.name == name) return verdict;
  FAIL("no candidate " << name);
  return decision.candidates.front();
}

}  // namespace

TEST_CASE("rounds of at most so many, in the order given, until the runs are used up; the fastest wins") {
  const std::vector<Trial> candidates = {candidate("a"), candidate("b"), candidate("c"), candidate("d")};
  ConfirmationLimits limits;
  limits.max_runs = 3;
  const auto first = decide_confirmation(candidates, {}, limits);
  CHECK(first.run == std::vector<std::string>{"a", "b"});
  CHECK_FALSE(first.finished);

  std::vector<TrialResult> results = {confirmed("a", 1.2), ended_by("b", TrialOutcome::running)};
  const auto waits = decide_confirmation(candidates, results, limits);
  CHECK(waits.run.empty());
  CHECK_FALSE(waits.finished);

  results[1] = confirmed("b", 1.0);
  const auto second = decide_confirmation(candidates, results, limits);
  CHECK(second.run == std::vector<std::string>{"c"});

  results.push_back(confirmed("c", 1.1));
  const auto last = decide_confirmation(candidates, results, limits);
  REQUIRE(last.finished);
  CHECK(last.winner == "b");
  CHECK(last.runs == 3);
  CHECK(last.separated);
  CHECK(verdict_of(last, "a").why.find("20.0 % slower than b") != std::string::npos);
  CHECK(verdict_of(last, "b").why.find(": the fastest") != std::string::npos);
  CHECK(verdict_of(last, "d").why == "not run: 3 trials were allowed");
  // Whoever reads the same results again decides the same.
  const auto again = decide_confirmation(candidates, results, limits);
  CHECK(again.winner == last.winner);
  CHECK(again.candidates[2].why == last.candidates[2].why);
}

TEST_CASE("without runs the best prediction wins, and it is said that nothing was run") {
  const std::vector<Trial> candidates = {candidate("a", 0.5, 0.1), candidate("b", 0.6, 0.1)};
  ConfirmationLimits limits;
  limits.max_runs = 0;
  const auto decision = decide_confirmation(candidates, {}, limits);
  REQUIRE(decision.finished);
  CHECK(decision.winner == "a");
  CHECK(decision.by_prediction);
  CHECK(decision.runs == 0);
  CHECK(verdict_of(decision, "a").why == "predicted 0.5 s (0.418 to 0.598); nothing was run");
  CHECK(verdict_of(decision, "a").predicted_sigma == 0.1);
  const auto none = decide_confirmation({}, {}, limits);
  CHECK(none.finished);
  CHECK(none.problem == "there are no candidates");
}

TEST_CASE("a running trial is stopped once its interval lies behind the leader's, and not before it has shown enough") {
  const std::vector<Trial> candidates = {candidate("a"), candidate("b")};
  const ConfirmationLimits limits;
  const TrialResult leader = confirmed("a", 1.0, TrialOutcome::running, 8);
  CHECK(decide_confirmation(candidates, std::vector{leader, confirmed("b", 1.5, TrialOutcome::running, 8)}, limits)
            .stop == std::vector<std::string>{"b"});
  CHECK(decide_confirmation(candidates, std::vector{leader, confirmed("b", 1.5, TrialOutcome::running, 4)}, limits)
            .stop.empty());
  CHECK(decide_confirmation(candidates, std::vector{leader, confirmed("b", 1.005, TrialOutcome::running, 8)}, limits)
            .stop.empty());
  const std::vector stopped = {confirmed("a", 1.0), confirmed("b", 1.5, TrialOutcome::stopped, 6)};
  const auto ended = decide_confirmation(candidates, stopped, limits);
  REQUIRE(ended.finished);
  CHECK(ended.winner == "a");
  CHECK(verdict_of(ended, "b").why.find("stopped after 11 steps") != std::string::npos);
}

TEST_CASE("each forecast says its interval and from what it is made, and trials that corrected it are that") {
  std::vector<Trial> candidates = {candidate("a", 1.0, 0.1), candidate("b", 1.02, 0.1)};
  for (Trial& trial : candidates) trial.predicted_from = ForecastSource::arithmetic;
  ConfirmationLimits limits;
  limits.max_runs = 2;
  const auto begun = decide_confirmation(candidates, {}, limits);
  CHECK(
      verdict_of(begun, "b").why ==
      "waits; predicted 1.02 s (0.853 to 1.22, by arithmetic from data sheets: nothing of such devices was measured)");
  limits.at_once = 1;
  const auto after = decide_confirmation(candidates, std::vector{confirmed("a", 2.0)}, limits);
  const std::string why = verdict_of(after, "b").why;
  CHECK(why.find("from what was measured here)") != std::string::npos);
  CHECK(verdict_of(after, "b").predicted_sigma != 0.1);
  CHECK(verdict_of(after, "a").why.find("predicted 1 s (0.836 to 1.2, by arithmetic") != std::string::npos);
}

TEST_CASE("what was measured corrects the predictions, and what can no longer win is not run") {
  // Everything takes twice as long as predicted: c, predicted close to a, is still worth a run, and d is not.
  const std::vector<Trial> candidates = {candidate("a", 1.0, 0.04), candidate("b", 1.02, 0.04),
                                         candidate("c", 1.05, 0.04), candidate("d", 1.6, 0.04)};
  ConfirmationLimits limits;
  const std::vector results = {confirmed("a", 2.0), confirmed("b", 2.1)};
  const auto decision = decide_confirmation(candidates, results, limits);
  CHECK(decision.scale == doctest::Approx(std::sqrt(2.0 * 2.1 / 1.02)).epsilon(0.01));
  CHECK(decision.run == std::vector<std::string>{"c"});
  const CandidateVerdict& d = verdict_of(decision, "d");
  CHECK(d.state == CandidateState::set_aside);
  CHECK(d.predicted_seconds == doctest::Approx(1.6 * decision.scale).epsilon(0.001));
  CHECK(starts_with(d.why, "not run: predicted 3.2"));
  // A prediction that knows nothing of its error sets nobody aside.
  std::vector<Trial> blind = candidates;
  for (Trial& trial : blind) trial.predicted_sigma = 0;
  CHECK(decide_confirmation(blind, results, limits).run == std::vector<std::string>{"c", "d"});
}

TEST_CASE("who needs as much memory as one that ran out is set aside by name; who needs less is run") {
  const std::vector<Trial> candidates = {candidate("large", 1.0, 0, 800), candidate("larger", 1.1, 0, 900),
                                         candidate("same", 1.2, 0, 800), candidate("small", 1.3, 0, 400),
                                         candidate("unknown", 1.4)};
  ConfirmationLimits limits;
  limits.at_once = 1;
  const std::vector results = {ended_by("large", TrialOutcome::out_of_memory, "rank 0 was killed")};
  const auto decision = decide_confirmation(candidates, results, limits);
  CHECK(decision.run == std::vector<std::string>{"small"});
  for (const char* name : {"larger", "same"}) {
    CHECK(verdict_of(decision, name).state == CandidateState::set_aside);
    CHECK(verdict_of(decision, name).why.find("large ran out of memory with 800 B") != std::string::npos);
  }
  CHECK(verdict_of(decision, "large").why == "out of memory: rank 0 was killed");
  CHECK(verdict_of(decision, "unknown").state == CandidateState::waiting);
}

TEST_CASE("hang, crash and a lost host are outcomes; partial results are set aside; if nothing is left it says so") {
  const std::vector<Trial> candidates = {candidate("a"), candidate("b"), candidate("c"), candidate("d")};
  ConfirmationLimits limits;
  limits.at_once = 4;
  std::vector<TrialResult> results = {
      ended_by("a", TrialOutcome::hang, "rank 1 stands still"), ended_by("b", TrialOutcome::crash, "signal 11"),
      ended_by("c", TrialOutcome::lost, "its host is gone"), confirmed("d", 1.0, TrialOutcome::measured, 2)};
  const auto nobody = decide_confirmation(candidates, results, limits);
  REQUIRE(nobody.finished);
  CHECK(nobody.winner.empty());
  CHECK(nobody.problem ==
        "no candidate could be measured; a: hang (rank 1 stands still); b: crash (signal 11); c: lost (its host is "
        "gone); d: measured");
  CHECK(verdict_of(nobody, "d").state == CandidateState::set_aside);
  CHECK(verdict_of(nobody, "d").why == "its results are partial: 2 measured steps, 3 are needed");
  results[3] = confirmed("d", 1.0);
  CHECK(decide_confirmation(candidates, results, limits).winner == "d");
  // Refused ones were never begun, and cost no run.
  results[0].outcome = TrialOutcome::refused;
  results[0].begun = false;
  CHECK(decide_confirmation(candidates, results, limits).runs == 3);
}

TEST_CASE("numbers that are none, and results of nobody's trial, change nothing") {
  const std::vector<Trial> candidates = {candidate("a"), candidate("b")};
  TrialResult dirty = confirmed("a", 1.0);
  dirty.step_seconds.insert(dirty.step_seconds.begin(), {std::nan(""), -3.0, 0.0, INFINITY});
  const std::vector results = {dirty, confirmed("b", 1.3), confirmed("stranger", 0.1)};
  const auto decision = decide_confirmation(candidates, results, ConfirmationLimits());
  REQUIRE(decision.finished);
  CHECK(decision.winner == "a");
  CHECK(verdict_of(decision, "a").seconds.steps == 15);
  CHECK(verdict_of(decision, "a").seconds.centre == doctest::Approx(1.0).epsilon(0.01));
}

TEST_CASE("the right one wins in at least 95 of 100 noisy confirmations with outliers, within the runs allowed") {
  const std::uint64_t seed = 20261123;
  MESSAGE("seed ", seed);
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> noise(0, 0.02);
  std::uniform_real_distribution<double> uniform(0, 1);
  int right = 0, runs = 0;
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<Trial> candidates;
    std::vector<double> truth;
    for (int i = 0; i < 6; ++i) {
      truth.push_back(1 + 0.06 * i);
      const double predicted = truth.back() * 0.8 * std::exp(0.03 * (uniform(random) - 0.5));
      candidates.push_back(candidate(std::string(1, static_cast<char>('a' + i)), predicted, 0.02));
    }
    std::shuffle(candidates.begin(), candidates.end(), random);
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Trial& a, const Trial& b) { return a.predicted_seconds < b.predicted_seconds; });
    std::vector<TrialResult> results;
    ConfirmationDecision decision;
    for (int round = 0; round < 10; ++round) {
      decision = decide_confirmation(candidates, results, ConfirmationLimits());
      if (decision.finished) break;
      for (const std::string& name : decision.run) {
        TrialResult result;
        result.name = name;
        result.outcome = TrialOutcome::measured;
        for (int step = 0; step < 15; ++step)
          result.step_seconds.push_back(truth[static_cast<std::size_t>(name[0] - 'a')] * noise(random) *
                                        (uniform(random) < 0.1 ? 2.5 : 1));
        results.push_back(std::move(result));
      }
    }
    REQUIRE(decision.finished);
    right += decision.winner == "a";
    runs += decision.runs;
  }
  CHECK(right >= 95);
  CHECK(runs <= 500);
  MESSAGE("right ", right, " of 100, runs ", runs);
}

TEST_CASE("on a machine with slow minutes the fastest steps decide what intervals do not distinguish") {
  const std::uint64_t seed = 20261124;
  MESSAGE("seed ", seed);
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> noise(0, 0.02);
  std::uniform_real_distribution<double> uniform(0, 1);
  const std::vector<Trial> candidates = {candidate("a"), candidate("b"), candidate("c")};
  double excess = 0, by_centre = 0;
  constexpr int cases = 200;
  for (int one = 0; one < cases; ++one) {
    std::vector<TrialResult> results;
    for (int i = 0; i < 3; ++i) {
      TrialResult result;
      result.name = candidates[static_cast<std::size_t>(i)].name, result.outcome = TrialOutcome::measured;
      const double slow = uniform(random);  // share of its steps while somebody else computes: half as long again
      for (int step = 0; step < 15; ++step)
        result.step_seconds.push_back((1 + 0.08 * i) * noise(random) * (uniform(random) < slow ? 1.5 : 1));
      results.push_back(std::move(result));
    }
    ConfirmationLimits limits;
    limits.max_runs = 3;
    const auto decision = decide_confirmation(candidates, results, limits);
    REQUIRE(decision.finished);
    excess += 0.08 * (decision.winner[0] - 'a') / cases;
    std::size_t fastest = 0;
    for (std::size_t i = 1; i < 3; ++i)
      if (decision.candidates[i].seconds.centre < decision.candidates[fastest].seconds.centre) fastest = i;
    by_centre += 0.08 * static_cast<double>(fastest) / cases;
  }
  MESSAGE("chosen ", 100 * excess, " % behind the best on average, by centres ", 100 * by_centre, " %");
  CHECK(excess < 0.75 * by_centre);
}

TEST_CASE("what was measured says who is tried next: likes of a disappointment wait") {
  const auto like = [](const std::string& name, double predicted, const std::string& kind) {
    Trial trial = candidate(name, predicted, 0.1);
    trial.like = {kind, {0}};
    return trial;
  };
  const std::vector<Trial> candidates = {like("a1", 1.00, "a"), like("b1", 1.02, "b"), like("a2", 1.01, "a"),
                                         like("b2", 1.03, "b")};
  ConfirmationLimits limits;
  limits.max_runs = 3;
  // The a's take a third longer than was thought, the b's do not: the next one is a b, though an a was given first.
  const std::vector<TrialResult> results = {confirmed("a1", 1.33), confirmed("b1", 1.02)};
  const auto decision = decide_confirmation(candidates, results, limits);
  CHECK(decision.run == std::vector<std::string>{"b2"});
  CHECK(verdict_of(decision, "a2").predicted_seconds == doctest::Approx(1.33 * 1.01).epsilon(0.01));
  CHECK(verdict_of(decision, "b2").predicted_seconds == doctest::Approx(1.03).epsilon(0.01));
}

}  // namespace longhaul
