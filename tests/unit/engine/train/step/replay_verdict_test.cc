#include "engine/train/step/replay_verdict.h"

#include <doctest/doctest.h>

using namespace longhaul;

TEST_CASE("every transition of a replay is as the table says, and nothing else is taken") {
  // state -> how to get there: what the two replays give, 1 the same, 0 another.
  const auto at = [](ReplayState state) {
    ReplayVerdict verdict;
    if (state == ReplayState::idle) return verdict;
    CHECK(verdict.suspect(7, "n1 gpu 2", 42).ok());
    if (state == ReplayState::in_place) return verdict;
    CHECK(verdict.replayed("n1 gpu 2", state == ReplayState::transient ? 41 : 42).ok());
    if (state == ReplayState::transient || state == ReplayState::elsewhere) return verdict;
    CHECK(verdict.replayed("n2 gpu 2", state == ReplayState::persistent ? 41 : 42).ok());
    return verdict;
  };
  const ReplayState states[] = {ReplayState::idle,    ReplayState::in_place,  ReplayState::elsewhere,
                                ReplayState::correct, ReplayState::transient, ReplayState::persistent};
  for (const ReplayState from : states) {
    CHECK(at(from).state() == from);
    for (const ReplayEvent event : {ReplayEvent::suspicious, ReplayEvent::same, ReplayEvent::another}) {
      ReplayVerdict verdict = at(from);
      const std::string where = from == ReplayState::elsewhere ? "n3 gpu 0" : "n1 gpu 2";
      const Status taken = event == ReplayEvent::suspicious
                               ? verdict.suspect(8, where, 42)
                               : verdict.replayed(where, event == ReplayEvent::same ? 42 : 41);
      ReplayState to = from;
      for (const ReplayTransition& one : replay_transitions)
        if (one.from == from && one.event == event) to = one.to;
      CAPTURE(to_string(from));
      CAPTURE(to_string(event));
      CHECK(verdict.state() == to);
      CHECK(taken.ok() == (to != from));
    }
  }
}

TEST_CASE("a replay that cannot be done here ends with 16 and goes on from its file; a wrong device ends with 17") {
  ReplayVerdict verdict;
  CHECK(verdict.suspect(7, "n1 gpu 2", 42).ok());
  CHECK(!verdict.replayed("n2 gpu 0", 42).ok());  // that is not in place
  CHECK(!verdict.exit_code(false));
  CHECK(verdict.replayed("n1 gpu 2", 42).ok());
  CHECK(!verdict.exit_code(true));
  CHECK(verdict.exit_code(false) == 16);
  auto later = ReplayVerdict::from_value(verdict.to_value());
  REQUIRE(later.ok());
  CHECK(!later->replayed("n1 gpu 2", 42).ok());  // that is not elsewhere
  CHECK(later->replayed("n4 gpu 0", 43).ok());
  CHECK(later->exit_code(true) == 17);
  CHECK(later->where() == "n1 gpu 2");
  CHECK(later->step() == 7);
  Value broken = verdict.to_value();
  broken.set("digest", "zz");
  CHECK(ReplayVerdict::from_value(broken).error().code == ErrorCode::corrupt);
  CHECK(ReplayVerdict::from_value(Value()).error().code == ErrorCode::corrupt);
}

TEST_CASE("of a disagreement, who wavers was wrong, or with whom the third does not agree; else nobody can know") {
  const auto judged = [](std::uint64_t first_again, std::uint64_t replay_again, int third, std::uint64_t digest) {
    ReplayRound round;
    round.owner = 4, round.replayer = 5, round.third = third;
    round.first = 10, round.replay = 20;
    round.first_again = first_again, round.replay_again = replay_again, round.third_digest = digest;
    return judge_replay(7, round);
  };
  CHECK(judged(20, 20, 6, 20).rank == 4);
  CHECK(judged(20, 20, 6, 20).state == ReplayState::transient);
  CHECK(judged(10, 10, 6, 10).rank == 5);
  CHECK(judged(10, 20, 6, 20).rank == 4);
  CHECK(judged(10, 20, 6, 20).state == ReplayState::persistent);
  CHECK(judged(10, 20, 6, 10).rank == 5);
  CHECK(judged(10, 20, 6, 10).state == ReplayState::correct);
  CHECK(judged(10, 20, 6, 30).rank == -1);
  CHECK(judged(10, 20, -1, 0).rank == -1);
  CHECK(judged(11, 21, 6, 10).rank == -1);
}
