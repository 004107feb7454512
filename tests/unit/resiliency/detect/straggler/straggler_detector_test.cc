// Slow ranks in generated series. Noise as stated below; the bars: 15 % slow is found within 20 steps, and there is at
// most one false alarm in 10,000 steps.
#include "resiliency/detect/straggler/straggler_detector.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

#include "resiliency/detect/straggler/step_times.h"

using namespace longhaul;

namespace straggler_series {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int big_steps = 400;  // sanitizers are twenty times slower
#else
constexpr int big_steps = 10'000;
#endif

// Seconds of computation per rank and step: 1 s; normal noise of 3 %; one rank and step in 100 takes 1.5 to 5 times as
// long; every rank drifts by 2 % up and down, with a phase of its own, in 2,000 steps; all together by 2 % in 5,000.
class Series {
 public:
  Series(int ranks, std::uint64_t seed) : random_(seed), seconds_(static_cast<std::size_t>(ranks)) {
    std::normal_distribution<float> normal;
    std::uniform_real_distribution<float> phase(0, 2 * pi), height(1.5F, 5.0F);
    for (std::size_t r = 0; r < seconds_.size(); ++r) phases_.push_back(phase(random_));
    own_.resize(seconds_.size());
    slow_.assign(seconds_.size(), 1);
    // Every step takes a stretch of these at random: no rank meets the same one often.
    noise_.resize(1'000'000 + seconds_.size());
    for (float& one : noise_) one = (1 + 0.03F * normal(random_)) * (random_() % 100 == 0 ? height(random_) : 1);
  }
  void slow_down(int rank, float factor) { slow_[static_cast<std::size_t>(rank)] = factor; }
  std::span<const float> next() {
    if (step_ % 50 == 0)
      for (std::size_t r = 0; r < seconds_.size(); ++r)
        own_[r] = 1 + 0.02F * std::sin(2 * pi * static_cast<float>(step_) / 2'000 + phases_[r]);
    const float all = all_ * (1 + 0.02F * std::sin(2 * pi * static_cast<float>(step_++) / 5'000));
    const float* const noise = &noise_[random_() % 1'000'000];
    for (std::size_t r = 0; r < seconds_.size(); ++r) seconds_[r] = all * own_[r] * slow_[r] * noise[r];
    return seconds_;
  }
  float all_ = 1;

 private:
  static constexpr float pi = 3.14159265F;
  std::mt19937_64 random_;
  std::vector<float> seconds_, phases_, own_, slow_, noise_;
  std::int64_t step_ = 0;
};

StragglerDetector peers_of(int ranks) {
  return StragglerDetector(std::vector<int>(static_cast<std::size_t>(ranks), 0));
}

int false_alarms(int ranks, int steps, std::uint64_t seed) {
  Series series(ranks, seed);
  StragglerDetector detector = peers_of(ranks);
  int alarms = 0;
  for (int step = 0; step < steps; ++step)
    for (const StragglerFinding& one : detector.observe(step, series.next())) {
      alarms += one.kind != StragglerFinding::Kind::over;
      MESSAGE(one.text());
    }
  return alarms;
}

struct Found {
  int of = 0, in_time = 0, wrong = 0;
  std::int64_t slowest = 0;
};

// Ranks become slow one after the other, each for 60 steps.
Found find_slow_ones(int ranks, int count, float factor, std::uint64_t seed) {
  Series series(ranks, seed);
  StragglerDetector detector = peers_of(ranks);
  std::mt19937_64 random(seed);
  Found found;
  std::int64_t step = 0;
  for (; step < 200; ++step) (void)detector.observe(step, series.next());
  for (int i = 0; i < count; ++i) {
    const int victim = static_cast<int>(random() % static_cast<std::uint64_t>(ranks));
    series.slow_down(victim, factor);
    const std::int64_t begun = step;
    std::int64_t after = 1'000'000;
    for (; step < begun + 60; ++step)
      for (const StragglerFinding& one : detector.observe(step, series.next())) {
        if (one.kind == StragglerFinding::Kind::over) continue;
        if (one.rank == victim) after = std::min(after, step - begun + 1);
        found.wrong += one.rank != victim;
      }
    series.slow_down(victim, 1);
    for (const std::int64_t end = step + 40; step < end; ++step) (void)detector.observe(step, series.next());
    ++found.of, found.in_time += after <= 20;
    if (after < 1'000'000) found.slowest = std::max(found.slowest, after);
  }
  return found;
}

}  // namespace straggler_series

TEST_CASE("a rank 15 % slower is found within 20 steps, among 8 and among 16,384") {
  for (const auto& [ranks, count] : {std::pair{8, 200}, std::pair{16'384, straggler_series::big_steps / 500}}) {
    constexpr std::uint64_t seed = 7'001;
    const auto found = straggler_series::find_slow_ones(ranks, count, 1.15F, seed);
    MESSAGE(ranks, " ranks, seed ", seed, ": ", found.in_time, " of ", found.of,
            " slow ranks found within 20 steps (bar: all), the slowest after ", found.slowest, " steps; ", found.wrong,
            " others named");
    CHECK(found.in_time == found.of);
    CHECK(found.wrong == 0);
  }
}

TEST_CASE("of three ranks each is found by the times of both others") {
  for (const int victim : {0, 1, 2}) {
    CAPTURE(victim);
    StragglerDetector detector = straggler_series::peers_of(3);
    std::vector<float> seconds(3, 1.0F);
    std::int64_t step = 0;
    for (; step < 200; ++step) CHECK(detector.observe(step, seconds).empty());
    seconds[static_cast<std::size_t>(victim)] = 1.3F;
    std::vector<StragglerFinding> found;
    for (; step < 220; ++step)
      for (const StragglerFinding& one : detector.observe(step, seconds)) found.push_back(one);
    REQUIRE(found.size() == 1);
    CHECK(found[0].kind == StragglerFinding::Kind::peers);
    CHECK(found[0].rank == victim);
  }
}

TEST_CASE("10,000 steps of noise, spikes and drift raise at most one false alarm") {
  for (const int ranks : {8, 16'384}) {
    constexpr std::uint64_t seed = 7'002;
    const auto begun = std::chrono::steady_clock::now();
    const int alarms = straggler_series::false_alarms(ranks, straggler_series::big_steps, seed);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    MESSAGE(ranks, " ranks, seed ", seed, ": ", alarms, " false alarms in ", straggler_series::big_steps,
            " steps (bar: at most 1), ", 1e3 * seconds / straggler_series::big_steps, " ms a step");
    CHECK(alarms <= 1);
  }
}

TEST_CASE("an alarm ends when the rank is as fast as the others again, and is raised once") {
  straggler_series::Series series(8, 3);
  StragglerDetector detector = straggler_series::peers_of(8);
  std::vector<StragglerFinding> found;
  const auto go = [&](int steps) {
    for (int i = 0; i < steps; ++i)
      for (const auto& one : detector.observe(i, series.next())) found.push_back(one);
  };
  go(100);
  series.slow_down(5, 1.4F);
  go(100);
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == StragglerFinding::Kind::peers);
  CHECK(found[0].rank == 5);
  CHECK(found[0].slowdown == doctest::Approx(1.4).epsilon(0.05));
  CHECK(found[0].relative_score == doctest::Approx(1 / 1.4).epsilon(0.06));
  CHECK(found[0].individual_score == doctest::Approx(1 / 1.4).epsilon(0.06));
  series.slow_down(5, 1);
  go(40);
  REQUIRE(found.size() == 2);
  CHECK(found[1].kind == StragglerFinding::Kind::over);
}

TEST_CASE("a rank without peers is compared with itself; all at once are nobody's fault") {
  straggler_series::Series series(4, 4);
  StragglerDetector detector({0, 1, 2, 3});  // four stages of a pipeline, one rank each
  std::vector<StragglerFinding> found;
  const auto go = [&](int steps) {
    for (int i = 0; i < steps; ++i)
      for (const auto& one : detector.observe(i, series.next())) found.push_back(one);
  };
  go(300);
  CHECK(found.empty());
  series.slow_down(2, 1.3F);
  go(20);
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == StragglerFinding::Kind::itself);
  CHECK(found[0].rank == 2);
  series.slow_down(2, 1);
  go(40);
  found.clear();
  series.all_ = 1.5F;
  go(60);
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == StragglerFinding::Kind::all);
  CHECK(found[0].rank == -1);
}

TEST_CASE("a rank's own time is known after 64 steps that count, and what is slower is counted from the next one on") {
  StragglerDetector detector({0, 1});  // no peers
  std::vector<float> seconds(2, 1.0F);
  std::int64_t step = 0;
  for (; step < 5 + 64; ++step) CHECK(detector.observe(step, seconds).empty());  // five to warm up
  seconds[1] = 1.3F;
  std::vector<StragglerFinding> found;
  for (; step < 100; ++step)
    for (const StragglerFinding& one : detector.observe(step, seconds)) found.push_back(one);
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == StragglerFinding::Kind::itself);
  CHECK(found[0].rank == 1);
  CHECK(found[0].since_step == 69);
  CHECK(found[0].step == 69 + 8);  // nine slow steps
}

TEST_CASE("one of two ranks is found by the times of both, within 20 steps of its onset") {
  straggler_series::Series series(2, 5);
  StragglerDetector detector({0, 0});
  std::vector<StragglerFinding> found;
  std::int64_t step = 0;
  const auto go = [&](int steps) {
    for (int i = 0; i < steps; ++i)
      for (const auto& one : detector.observe(step++, series.next())) found.push_back(one);
  };
  go(200);
  CHECK(found.empty());
  for (const int victim : {0, 1}) {
    const std::int64_t onset = step;
    series.slow_down(victim, 1.6F);
    go(20);
    REQUIRE(found.size() == 1);
    CHECK(found[0].kind == StragglerFinding::Kind::itself);
    CHECK(found[0].rank == victim);
    CHECK(found[0].since_step >= onset - 5);  // a spike shortly before may count
    CHECK(found[0].since_step <= onset + 5);
    series.slow_down(victim, 1);
    go(60);
    REQUIRE(found.size() == 2);
    CHECK(found[1].kind == StragglerFinding::Kind::over);
    CHECK(found[1].since_step == found[1].step);
    found.clear();
  }
  series.all_ = 1.5F;  // both: nobody's fault
  go(60);
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == StragglerFinding::Kind::all);
}

TEST_CASE("where a look covers many short steps, a past of 64 steps is enough, in five looks or more") {
  for (const int steps_a_look : {4, 15, 100}) {
    straggler_series::Series series(2, 6);
    StragglerDetector detector({0, 0});
    std::vector<StragglerFinding> found;
    std::int64_t step = 0;
    const auto look = [&](int steps) {  // what a page's counter of computing time says of so many steps
      std::vector<float> mean(2, 0);
      for (int i = 0; i < steps; ++i) {
        const std::span<const float> seconds = series.next();
        for (std::size_t rank = 0; rank < 2; ++rank) mean[rank] += seconds[rank] / static_cast<float>(steps);
      }
      step += steps;
      for (const auto& one : detector.observe(step, mean, steps)) found.push_back(one);
    };
    const int calm_looks = 2 + std::max(5, 64 / steps_a_look);  // warm-up, the past
    for (int i = 0; i < calm_looks; ++i) look(steps_a_look);
    CHECK(found.empty());
    series.slow_down(1, 10);  // and steps are longer than the time between looks now
    for (int i = 0; i < 20; ++i) look(1);
    REQUIRE(found.size() == 1);
    CHECK(found[0].kind == StragglerFinding::Kind::itself);
    CHECK(found[0].rank == 1);
    CHECK(found[0].individual_score < 0.15);
    CHECK(found[0].since_step > step - 20 - steps_a_look);
  }
}

TEST_CASE("one of two ranks is found though the other one, which waits for it, is somewhat slower as well") {
  straggler_series::Series series(2, 8);
  StragglerDetector detector({0, 0});
  std::vector<StragglerFinding> found;
  std::int64_t step = 0;
  const auto go = [&](int steps) {
    for (int i = 0; i < steps; ++i)
      for (const auto& one : detector.observe(step++, series.next())) found.push_back(one);
  };
  go(100);
  REQUIRE(found.empty());
  series.all_ = 1.16F, series.slow_down(1, 8);
  go(20);
  const auto slow = std::find_if(found.begin(), found.end(), [](const StragglerFinding& f) { return f.rank == 1; });
  REQUIRE(slow != found.end());
  CHECK(slow->kind == StragglerFinding::Kind::itself);
  CHECK(std::none_of(found.begin(), found.end(), [](const StragglerFinding& f) { return f.rank == 0; }));
}

TEST_CASE("steps of which nothing is known, and a wrong number of ranks, are passed over") {
  StragglerDetector detector = straggler_series::peers_of(4);
  std::vector<float> seconds(4, 1);
  for (int step = 0; step < 100; ++step) {
    seconds[1] = step % 2 ? NAN : 0;
    CHECK(detector.observe(step, seconds).empty());
    CHECK(detector.observe(step, std::span(seconds).first(2)).empty());
  }
}

TEST_CASE("times per step come from pages, whatever steps went by between two looks") {
  StepTimes times(3);
  std::vector<RankObservation> ranks(2);  // the third has no page yet
  for (int r = 0; r < 2; ++r)
    ranks[static_cast<std::size_t>(r)].rank = r, ranks[static_cast<std::size_t>(r)].seen = true;
  const auto look = [&](std::int64_t step0, double s0, std::int64_t step1, double s1) {
    ranks[0].beat.step = step0, ranks[0].beat.computed_ns = static_cast<std::int64_t>(1e9 * s0);
    ranks[1].beat.step = step1, ranks[1].beat.computed_ns = static_cast<std::int64_t>(1e9 * s1);
    return times.observe(ranks);
  };
  CHECK(!look(10, 5.0, 10, 7.0));
  CHECK(!look(11, 5.2, 10, 7.0));  // the second is still at it
  CHECK(look(12, 5.4, 11, 7.3));
  CHECK(times.step() == 12);
  CHECK(times.seconds()[0] == doctest::Approx(0.2));
  CHECK(times.seconds()[1] == doctest::Approx(0.3));
  CHECK(times.seconds()[2] == 0);
  CHECK(!look(12, 5.4, 11, 7.3));
  CHECK(!look(3, 5.5, 3, 7.4));  // rolled back: from here
  CHECK(look(4, 5.75, 4, 7.65));
  CHECK(times.seconds()[0] == doctest::Approx(0.25));
  CHECK(times.steps() == 1);
  CHECK(look(12, 6.55, 11, 10.45));
  CHECK(times.seconds()[0] == doctest::Approx(0.1));
  CHECK(times.seconds()[1] == doctest::Approx(0.4));
  CHECK(times.steps() == 7);  // which both have done
}
