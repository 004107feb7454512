#include "resiliency/detect/hang/step_stall.h"

#include <doctest/doctest.h>

using namespace longhaul;

namespace {

// Two ranks that beat, looked at ten times a second; a step takes 0.2 s.
struct StallRig {
  StallRig() {
    for (int rank = 0; rank < 2; ++rank) {
      RankObservation one;
      one.rank = rank, one.seen = true, one.host = "n1";
      one.beat.step = 10, one.beat.section = "read";
      ranks.push_back(one);
    }
    learned.note("read", 0.1);
    stall.new_launch(now_ms);
  }
  std::optional<StepStallFinding> look() { return stall.observe(now_ms += 100, ranks, learned); }
  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      CHECK(!look());
      for (RankObservation& rank : ranks) ++rank.beat.step;
      CHECK(!look());
    }
  }
  // Seconds until a finding of this level, at most so many.
  std::optional<double> until(HangLevel level, double most_s) {
    for (const std::int64_t begun = now_ms; now_ms - begun < static_cast<std::int64_t>(most_s * 1000);)
      if (const auto found = look(); found && found->level == level) return static_cast<double>(now_ms - begun) * 1e-3;
    return std::nullopt;
  }
  std::vector<RankObservation> ranks;
  LearnedTimes learned;
  StepStall stall{StepStallOptions{0, 0, 5, 45, 1800, 5}};
  std::int64_t now_ms = 1'000'000;
};

}  // namespace

TEST_CASE("step stall: suspected after the floor, acted upon after start-up's time, each once") {
  StallRig rig;
  rig.steps(20);
  rig.ranks[1].beat.step -= 1;  // it is the one behind
  const auto suspect = rig.until(HangLevel::suspect, 100);
  REQUIRE(suspect);
  CHECK(*suspect == doctest::Approx(45).epsilon(0.02));
  const auto act = rig.until(HangLevel::act, 2'000);
  REQUIRE(act);
  CHECK(*act == doctest::Approx(1800 - 45).epsilon(0.02));
  CHECK(!rig.until(HangLevel::suspect, 100));
  CHECK(!rig.until(HangLevel::act, 100));
}

TEST_CASE("step stall: a step ends it, and a long step makes longer ones usual") {
  StallRig rig;
  rig.steps(20);
  CHECK(!rig.until(HangLevel::suspect, 40));
  rig.steps(5);  // the first of them took 40 s
  CHECK(rig.stall.timeout_s(HangLevel::suspect) == doctest::Approx(5 * 40).epsilon(0.02));
  CHECK(!rig.until(HangLevel::suspect, 190));
}

TEST_CASE("step stall: nothing before the first steps, and sections of unknown length stop the clock") {
  StallRig rig;
  CHECK(!rig.until(HangLevel::suspect, 4'000));
  rig.steps(20);
  rig.ranks[0].beat.section = "export";
  CHECK(!rig.until(HangLevel::suspect, 4'000));
  rig.ranks[0].beat.section = "read";
  CHECK(rig.until(HangLevel::suspect, 46));
}

TEST_CASE("step stall: a given time acts, whatever was learned") {
  StallRig rig;
  rig.stall = StepStall(StepStallOptions{0, 3, 5, 45, 1800, 5});
  rig.stall.new_launch(rig.now_ms);
  rig.steps(20);
  const auto act = rig.until(HangLevel::act, 10);
  REQUIRE(act);
  CHECK(*act == doctest::Approx(3).epsilon(0.05));
}

TEST_CASE("step stall: what was reported of one stall is reported of the next one, and in the next launch") {
  StallRig rig;
  rig.steps(20);
  REQUIRE(rig.until(HangLevel::suspect, 46));
  rig.steps(1);  // which took 45 s
  REQUIRE(rig.until(HangLevel::suspect, 5 * 46));
  rig.stall.new_launch(rig.now_ms);
  rig.steps(20);
  CHECK(rig.until(HangLevel::suspect, 5 * 5 * 46));
}

TEST_CASE("step stall: a rank that does no steps is not the one behind") {
  StallRig rig;
  rig.ranks[0].beat.step = -1;
  for (int step = 0; step < 20; ++step) {
    CHECK(!rig.look());
    ++rig.ranks[1].beat.step;
  }
  std::optional<StepStallFinding> found;
  for (int look = 0; look < 1'000 && !found; ++look) found = rig.look();
  REQUIRE(found);
  CHECK(found->rank == 1);
}
