// Progress, loss, collectives out of step, and silent corruption.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "resiliency/detect/hang/desync.h"
#include "resiliency/detect/hang/progress_watch.h"
#include "resiliency/detect/loss/loss_watch.h"

using namespace longhaul;

TEST_CASE("steps that are rolled back again and again are no progress, steps beyond them are") {
  ProgressWatch watch;
  std::int64_t step = 0;
  const auto lap = [&](std::int64_t from, std::int64_t to) {
    std::optional<std::string> reason;
    for (step = from; step <= to; ++step)
      if (auto found = watch.at_step(step)) reason = found;
    return reason;
  };
  CHECK(!lap(0, 20));
  for (int i = 0; i < 3; ++i) CHECK(!lap(10, 20));
  CHECK(!lap(10, 21));  // the fourth gets further
  for (int i = 0; i < 4; ++i) CHECK(!lap(10, 21));
  const auto reason = lap(10, 21);
  REQUIRE(reason);
  CHECK(*reason == "rolled back 5 times without getting beyond step 21");
  CHECK(!lap(10, 21));  // reported once
}

TEST_CASE("of a falling, noisy loss only spikes are reported, once each") {
  constexpr std::uint64_t seed = 11;
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(0, 0.03);
  LossWatch watch;
  int false_alarms = 0, spikes = 0, calm = 0;
  for (int step = 0; step < 20'000; ++step) {
    const double loss = 2 + 8 * std::exp(-step / 2'000.0) + noise(random);
    const bool high = step % 1'000 >= 500 && step % 1'000 < 506;  // rings around the limit
    const LossVerdict verdict = watch.observe(step, high ? loss + (step % 2 ? 3 : 1) : loss);
    if (high) {
      spikes += verdict == LossVerdict::spike;
    } else {
      false_alarms += verdict == LossVerdict::spike || verdict == LossVerdict::new_level;
      calm += verdict == LossVerdict::calm_again;
    }
  }
  MESSAGE("seed ", seed, ": ", spikes, " of 20 spikes reported, ", false_alarms, " false alarms in 20,000 steps");
  CHECK(spikes == 20);
  CHECK(calm == 20);
  CHECK(false_alarms == 0);
}

TEST_CASE("what is not a number is reported at once, and a new level is accepted in the end") {
  LossWatch watch;
  CHECK(watch.median() == 0);  // nothing was seen
  CHECK(watch.observe(0, NAN) == LossVerdict::not_finite);
  CHECK(watch.observe(1, INFINITY) == LossVerdict::not_finite);
  for (int step = 0; step < 30; ++step) CHECK(watch.observe(step, 2 + 0.001 * (step % 5)) == LossVerdict::fine);
  CHECK(watch.observe(30, 5) == LossVerdict::spike);
  int accepted = 0;
  for (int step = 31; step < 100 && accepted == 0; ++step)
    if (watch.observe(step, 5 + 0.001 * (step % 5)) == LossVerdict::new_level) accepted = step;
  CHECK(accepted == 79);
  CHECK(watch.observe(100, 5) == LossVerdict::fine);
}

namespace desync_cases {

RankObservation in_collective(int rank, std::vector<BeatCommunicator> communicators, int waits_in) {
  RankObservation one;
  one.rank = rank, one.host = "n" + std::to_string(rank), one.seen = true, one.process = ProcessState::running;
  one.beat.communicators = std::move(communicators), one.beat.waits_in = waits_in;
  return one;
}

}  // namespace desync_cases

TEST_CASE("a rank that left a collective out is found by the counts of its group") {
  using desync_cases::in_collective;
  std::vector<RankObservation> ranks;
  for (int r = 0; r < 4; ++r) ranks.push_back(in_collective(r, {{"dp@0", 9, 8}}, 0));
  CHECK(find_desyncs(ranks).empty());  // all have come: the transport, not the program
  ranks[2].beat.communicators[0] = {"dp@0", 8, 7};
  const auto found = find_desyncs(ranks);
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == Desync::Kind::counts);
  CHECK(found[0].behind == std::vector<int>{2});
  CHECK(found[0].text == "all 4 members wait in dp, but rank 2 started 8 collectives of it and ranks 0, 1, 3 9");
  ranks[2].process = ProcessState::stopped;
  CHECK(find_desyncs(ranks).empty());
}

TEST_CASE("two communicators in another order are a circle; a rank that computes is none") {
  using desync_cases::in_collective;
  std::vector<RankObservation> ranks = {in_collective(0, {{"tp@0", 5, 4}, {"dp@0", 2, 2}}, 0),
                                        in_collective(1, {{"tp@0", 4, 4}, {"dp@0", 3, 2}}, 1)};
  const auto found = find_desyncs(ranks);
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == Desync::Kind::order);
  CHECK(found[0].communicators == std::vector<std::string>{"dp", "tp"});
  ranks[1].beat.waits_in = beat_waits_nowhere;
  CHECK(find_desyncs(ranks).empty());
}
