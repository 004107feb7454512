// When a hang is one: levels, warm-up, learned times, silence, and ranks that wait for one that is allowed to be slow.
#include "resiliency/detect/hang/hang_detector.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>

using namespace longhaul;

namespace hang_rig {

// Ranks that do steps together: each computes in its section, then they agree in "world".
struct Rig {
  HangDetector detector;
  std::vector<RankObservation> ranks;
  std::int64_t now_ms = 0;
  std::vector<HangFinding> found;
  int overs = 0;

  explicit Rig(int count, HangTimeouts timeouts = {}, LearnedTimes learned = {}, bool reports_waits = true)
      : detector(std::move(timeouts), std::move(learned)) {
    for (int r = 0; r < count; ++r) {
      RankObservation one;
      one.rank = r, one.host = "n" + std::to_string(r), one.seen = true, one.process = ProcessState::running;
      one.beat.rank = r, one.beat.section = "load";
      if (reports_waits) one.beat.communicators = {{"world", 0, 0}}, one.beat.waits_in = beat_waits_nowhere;
      ranks.push_back(one);
    }
    detector.new_launch(0);
  }
  void look(std::int64_t for_ms) {
    for (std::int64_t passed = 0; passed < for_ms; passed += 100) {
      now_ms += 100;
      for (RankObservation& one : ranks) one.idle_ms += 100;
      for (RankObservation& one : ranks)
        if (one.silent_ms > 0) one.idle_ms -= 100, one.silent_ms += 100;  // the page as it was then
      if (auto finding = detector.observe(now_ms, ranks)) found.push_back(*finding);
      overs += detector.over();
    }
  }
  void enter(int rank, const std::string& section) {
    ranks[static_cast<std::size_t>(rank)].beat.section = section;
    ranks[static_cast<std::size_t>(rank)].idle_ms = 0;
  }
  void wait(int rank) {
    auto& beat = ranks[static_cast<std::size_t>(rank)].beat;
    if (beat.communicators.empty()) return;
    ++beat.communicators[0].enqueued, beat.waits_in = 0;
  }
  void meet() {
    for (RankObservation& one : ranks) {
      if (one.beat.communicators.empty()) continue;
      one.beat.communicators[0].completed = one.beat.communicators[0].enqueued;
      one.beat.waits_in = beat_waits_nowhere;
    }
  }
  // All ranks, each step of so long in one section.
  void steps(int count, std::int64_t ms = 200, const std::string& section = "micro_batch") {
    for (int i = 0; i < count; ++i) {
      for (RankObservation& one : ranks) ++one.beat.step, enter(one.rank, section);
      look(ms - 100);
      for (const RankObservation& one : ranks) wait(one.rank);
      look(100);
      meet();
    }
  }
  // One computes in a section while the others wait for it.
  void alone(int rank, const std::string& section, std::int64_t ms) {
    enter(rank, section);
    for (const RankObservation& one : ranks)
      if (one.rank != rank) wait(one.rank);
    look(ms);
  }
  void alone_ends(int rank) {
    wait(rank);
    look(100);
    meet();
  }
};

HangTimeouts quick() {
  HangTimeouts timeouts;
  timeouts.floor_s = 5;
  return timeouts;
}

}  // namespace hang_rig

TEST_CASE(
    "a hang is suspected within 2 s, acted upon at the learned timeout, each once, and ends when the rank moves") {
  hang_rig::Rig rig(4, hang_rig::quick());
  rig.steps(20);
  CHECK(rig.found.empty());
  CHECK(rig.detector.limits().step_s() == doctest::Approx(0.2));
  rig.alone(2, "micro_batch", 20'000);
  REQUIRE(rig.found.size() == 2);
  CHECK(rig.found[0].level == HangLevel::suspect);
  CHECK(rig.found[0].timeout_s == 1.5);
  CHECK(rig.found[0].idle_s == doctest::Approx(1.5).epsilon(0.1));
  CHECK(rig.found[1].level == HangLevel::act);
  CHECK(rig.found[1].timeout_s == 5);
  for (const HangFinding& finding : rig.found) {
    REQUIRE(finding.culprits.size() == 1);
    CHECK(finding.culprits[0].rank == 2);
    CHECK(finding.culprits[0].host == "n2");
    CHECK(finding.culprits[0].section == "micro_batch");
    CHECK(finding.culprits[0].communicator == "world");
    CHECK(finding.culprits[0].certain);
  }
  CHECK(rig.found[0].text() ==
        "suspect: rank 2 stands in section micro_batch since 1.5 s; 3 others wait for it in world, collective 20 (no "
        "movement for 1.5 s, timeout 1.5 s)");
  CHECK(rig.overs == 0);
  rig.alone_ends(2);
  rig.steps(3);
  CHECK(rig.overs == 1);
  CHECK(rig.found.size() == 2);
}

TEST_CASE("slow steps are suspected before three of them are over") {
  hang_rig::Rig rig(2, hang_rig::quick());
  rig.steps(12, 4'000);
  CHECK(rig.found.empty());
  CHECK(rig.detector.limits().seconds(HangLevel::suspect, "micro_batch") == doctest::Approx(10));
  CHECK(rig.detector.limits().seconds(HangLevel::act, "micro_batch") == doctest::Approx(5 * 3.9).epsilon(0.1));
  // A few slow ones between others are not the median.
  hang_rig::Rig mixed(2, hang_rig::quick());
  mixed.steps(8), mixed.steps(3, 1'000), mixed.steps(3);
  CHECK(mixed.detector.limits().step_s() == doctest::Approx(0.2));
}

TEST_CASE("the first steps have the start-up timeout and teach nothing") {
  HangTimeouts timeouts = hang_rig::quick();
  timeouts.startup_s = 100;
  hang_rig::Rig rig(2, timeouts);
  rig.look(60'000);      // load
  rig.steps(1, 50'000);  // compilation
  rig.steps(4);
  CHECK(rig.found.empty());
  CHECK(!rig.detector.limits().learned().seconds("micro_batch"));
  rig.steps(10);
  CHECK(rig.detector.limits().learned().seconds("micro_batch").value() < 0.3);
  // A start that never ends is found as well.
  hang_rig::Rig stuck(2, timeouts);
  stuck.look(99'000);
  CHECK(stuck.found.empty());
  stuck.look(2'000);
  REQUIRE(stuck.found.size() == 1);
  CHECK(stuck.found[0].level == HangLevel::act);
}

TEST_CASE("a new launch has a warm-up of its own and keeps what was learned") {
  hang_rig::Rig rig(2, hang_rig::quick());
  rig.steps(20);
  const double learned = rig.detector.limits().learned().seconds("micro_batch").value();
  rig.detector.new_launch(rig.now_ms);
  for (RankObservation& one : rig.ranks) one.beat.step = -1, one.beat.section = "load";
  rig.look(30'000);
  rig.steps(1, 30'000);
  CHECK(rig.found.empty());
  CHECK(rig.detector.limits().learned().seconds("micro_batch").value() == learned);
}

TEST_CASE("others that wait for a rank in a long section are not hanging, and do not learn from it") {
  hang_rig::Rig rig(4, hang_rig::quick());
  rig.steps(10);
  rig.alone(0, "checkpoint", 60'000);  // nobody has timed one yet
  rig.alone_ends(0);
  CHECK(rig.found.empty());
  rig.steps(10);
  CHECK(rig.detector.limits().learned().seconds("micro_batch").value() < 0.3);
  CHECK(rig.detector.limits().learned().seconds("checkpoint").value() == doctest::Approx(60).epsilon(0.01));
  // From now on half as long again is suspect.
  rig.alone(0, "checkpoint", 89'000);
  CHECK(rig.found.empty());
  rig.look(2'000);
  REQUIRE(rig.found.size() == 1);
  CHECK(rig.found[0].level == HangLevel::suspect);
  CHECK(rig.found[0].section == "checkpoint");
}

TEST_CASE("the same holds where programs do not say that they wait") {
  hang_rig::Rig rig(3, hang_rig::quick(), {}, false);
  rig.steps(10);
  rig.alone(0, "checkpoint", 60'000);
  CHECK(rig.found.empty());
  rig.steps(5);
  rig.look(3'000);  // all in micro_batch
  REQUIRE(rig.found.size() == 1);
  CHECK(!rig.found[0].culprits[0].certain);
}

TEST_CASE("a stopped process is suspected at once, in whatever section") {
  hang_rig::Rig rig(4, hang_rig::quick());
  rig.steps(3);  // still warming up
  rig.ranks[1].process = ProcessState::stopped;
  rig.alone(1, "evaluate", 2'200);
  REQUIRE(rig.found.size() == 1);
  CHECK(rig.found[0].level == HangLevel::suspect);
  CHECK(rig.found[0].culprits[0].rank == 1);
  rig.ranks[1].process = ProcessState::running;
  rig.alone_ends(1);
  rig.steps(10);
  CHECK(rig.overs == 1);
  CHECK(!rig.detector.limits().learned().seconds("evaluate"));
}

TEST_CASE(
    "a process that stays stopped is a hang after the floor of learned times, in a section that nobody has timed") {
  HangTimeouts timeouts = hang_rig::quick();
  timeouts.startup_s = 1800;
  const auto found_after = [&](hang_rig::Rig& rig, std::int64_t ms) {
    rig.look(ms);
    return rig.found.empty() ? std::string("nothing") : std::string(to_string(rig.found.back().level));
  };
  for (const int steps : {0, 3, 20}) {  // starting, warming up, at work
    CAPTURE(steps);
    hang_rig::Rig rig(4, timeouts);
    rig.steps(steps);
    rig.alone(1, "export", 100);
    rig.ranks[1].process = ProcessState::stopped;
    CHECK(found_after(rig, 1'100) == "nothing");
    CHECK(found_after(rig, 1'100) == "suspect");
    CHECK(found_after(rig, 2'400) == "suspect");
    CHECK(found_after(rig, 700) == "act");
    CHECK(rig.found.size() == 2);
    REQUIRE(!rig.found[1].culprits.empty());
    CHECK(rig.found[1].culprits[0].rank == 1);
    CHECK(rig.found[1].culprits[0].certain);
    CHECK(rig.found[1].timeout_s == 5);
    CHECK(rig.found[1].culprits[0].reason.find("is stopped (SIGSTOP) in section export") != std::string::npos);
  }
  // Also where it waits itself, and nobody for it.
  hang_rig::Rig waiting(2, timeouts);
  waiting.steps(3);
  waiting.wait(1);
  waiting.ranks[1].process = ProcessState::stopped;
  CHECK(found_after(waiting, 5'300) == "act");
  CHECK(waiting.found.back().culprits[0].rank == 1);
  // A debugger, and a section that is left alone, are let be.
  hang_rig::Rig debugged(4, timeouts);
  debugged.steps(3);
  debugged.ranks[1].process = ProcessState::traced;
  debugged.alone(1, "export", 60'000);
  CHECK(debugged.found.size() == 1);
  CHECK(debugged.found[0].level == HangLevel::suspect);
  timeouts.sections.push_back({"export", 0, 0, true});
  hang_rig::Rig unmonitored(4, timeouts);
  unmonitored.steps(3);
  unmonitored.ranks[1].process = ProcessState::stopped;
  unmonitored.alone(1, "export", 60'000);
  for (const HangFinding& finding : unmonitored.found) CHECK(finding.level == HangLevel::suspect);
}

TEST_CASE("a process that is stopped again and again, or with the whole job, is no hang") {
  hang_rig::Rig slowed(4, hang_rig::quick());
  slowed.steps(3);
  for (int i = 0; i < 30; ++i) {
    slowed.ranks[1].process = ProcessState::stopped;
    slowed.look(500);
    slowed.ranks[1].process = ProcessState::running;
    slowed.steps(1, 500);
  }
  CHECK(slowed.found.empty());
  // The scheduler suspends all processes of a job, this one as well, for a minute.
  hang_rig::Rig job(4, hang_rig::quick());
  job.steps(3);
  job.look(100);
  job.now_ms += 60'000;
  for (RankObservation& one : job.ranks) one.idle_ms += 60'000, one.process = ProcessState::stopped;
  job.look(500);  // ranks go on a moment later than whoever looks
  for (RankObservation& one : job.ranks) one.process = ProcessState::running;
  job.steps(10);
  for (const HangFinding& finding : job.found) CHECK(finding.level == HangLevel::suspect);
}

TEST_CASE("a fabric silent for 30 s ends nothing with the default floor, and is suspected") {
  hang_rig::Rig rig(8);
  rig.steps(20);
  for (const RankObservation& one : rig.ranks) rig.wait(one.rank);
  rig.look(30'000);
  rig.meet();
  rig.steps(10);
  REQUIRE(rig.found.size() == 1);
  CHECK(rig.found[0].level == HangLevel::suspect);
  CHECK(!rig.found[0].culprits[0].certain);  // all wait alike: no rank is to blame
  CHECK(rig.overs == 1);
}

TEST_CASE("a process that has ended is done, as long as nobody waits for it") {
  LearnedTimes learned;
  for (int stay = 0; stay < 10; ++stay) learned.note("evaluate", 60.0);
  hang_rig::Rig rig(3, hang_rig::quick(), learned);
  rig.steps(20);
  rig.ranks[2].process = ProcessState::ended;
  for (const int rank : {0, 1}) rig.enter(rank, "evaluate");
  rig.look(10'000);
  CHECK(rig.found.empty());
  for (const int rank : {0, 1}) rig.wait(rank);
  rig.look(5'300);
  REQUIRE(!rig.found.empty());
  CHECK(rig.found.back().culprits[0].rank == 2);
}

TEST_CASE("where no host is heard nothing is found; a lost host is, once others stand still because of it") {
  hang_rig::Rig rig(4, hang_rig::quick());
  rig.steps(20);
  for (RankObservation& one : rig.ranks) one.silent_ms = 1;
  rig.look(60'000);
  CHECK(rig.found.empty());
  for (RankObservation& one : rig.ranks) one.silent_ms = 0, one.idle_ms = 0;
  rig.steps(5);
  CHECK(rig.found.empty());
  // Only its control connection is cut: the others go on.
  rig.ranks[3].silent_ms = 1;
  for (int step = 0; step < 50; ++step) {
    for (int r = 0; r < 3; ++r) ++rig.ranks[static_cast<std::size_t>(r)].beat.step, rig.enter(r, "micro_batch");
    rig.look(200);
  }
  CHECK(rig.found.empty());
  // It is gone.
  for (int r = 0; r < 3; ++r) rig.wait(r);
  rig.look(2'200);
  REQUIRE(rig.found.size() == 1);
  CHECK(rig.found[0].culprits[0].host == "n3");
  CHECK(rig.found[0].culprits[0].reason.find("was last heard of") != std::string::npos);
}

TEST_CASE("a section may be left unmonitored, or have timeouts of its own") {
  HangTimeouts timeouts = hang_rig::quick();
  timeouts.sections = {{"debug", 0, 0, true}, {"evaluate", 10, 20, false}};
  hang_rig::Rig rig(3, timeouts);
  rig.steps(10);
  rig.alone(1, "debug", 900'000);
  CHECK(rig.found.empty());
  rig.alone_ends(1);
  rig.steps(2);
  rig.alone(1, "evaluate", 30'000);
  REQUIRE(rig.found.size() == 2);
  CHECK(rig.found[0].timeout_s == 10);
  CHECK(rig.found[1].timeout_s == 20);
}

TEST_CASE("a look at 16,384 ranks takes milliseconds") {
  hang_rig::Rig rig(16'384);
  double seconds = 0;
  int looks = 0;
  for (int step = 0; step < 20; ++step) {
    for (RankObservation& one : rig.ranks) ++one.beat.step, rig.enter(one.rank, "micro_batch");
    const auto begun = std::chrono::steady_clock::now();
    rig.look(200);
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    looks += 2;
  }
  const double look_ms = 1e3 * seconds / looks;
  MESSAGE(look_ms, " ms a look at 16,384 ranks");
  CHECK(look_ms < 1'000);
  CHECK(rig.found.empty());
}

TEST_CASE("nobody who has stood still for less than every limit is looked at; one left to the rules is none") {
  HangTimeouts timeouts;
  timeouts.suspect_s = 2;
  timeouts.sections.push_back({"evaluate", 0, 7});
  CHECK(StandstillLimits(timeouts).shortest_s() == 2);
  timeouts.sections.push_back({"poll", 0, 0.5});
  CHECK(StandstillLimits(timeouts).shortest_s() == 0.5);
}

TEST_CASE("learned times are the longest stay, wear off by half, and survive a file") {
  LearnedTimes times;
  CHECK(!times.seconds("step"));
  times.note("step", 1.0), times.note("step", 3.0), times.note("step", 2.0), times.note("step", -1);
  CHECK(times.seconds("step") == 3.0);
  CHECK(times.count("step") == 3);
  times.begin_launch();
  CHECK(times.seconds("step") == 3.0);
  times.note("step", 1.0);
  CHECK(times.seconds("step") == 2.0);
  times.note("poll", 0.25);
  const auto read = LearnedTimes::from_value(times.to_value());
  REQUIRE(read.ok());
  CHECK(read->seconds("step") == 2.0);
  CHECK(read->seconds("poll") == 0.25);
  CHECK(read->count("step") == 4);
  Value broken = times.to_value();
  broken.find("step")->set("seconds", -4.0);
  CHECK(LearnedTimes::from_value(broken).error().code == ErrorCode::corrupt);
  CHECK(LearnedTimes::from_value(Value(3)).error().code == ErrorCode::corrupt);
}

TEST_CASE("timeouts of hangs that are no times are reported at once, with a remedy each") {
  CHECK(judge_timeouts(HangTimeouts{}).empty());
  HangTimeouts at_once;  // suspected and acted upon
  at_once.sections = {{"a", 2, 2, false}};
  CHECK(judge_timeouts(at_once).empty());
  HangTimeouts wrong;
  wrong.factor = 0.5, wrong.act_s = 1, wrong.suspect_s = 3, wrong.startup_s = -1;
  wrong.sections = {{"a", 3, 2, false}, {"a", 0, 0, false}};
  std::string text;
  for (const Error& error : judge_timeouts(wrong)) text += error.message() + "\n";
  for (const char* part : {"factor = 0.5", "start-up = -1", "section a: act", "twice"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
}

TEST_CASE("a last save that takes 300 times as long as the others were seen to is no hang") {
  HangTimeouts timeouts;
  timeouts.startup_s = 600;
  hang_rig::Rig rig(4, timeouts);
  const auto save = [&] {
    for (const RankObservation& one : rig.ranks) rig.enter(one.rank, beat_checkpoint);
    rig.look(400);
  };
  for (int i = 0; i < 10; ++i) rig.steps(10), save();
  rig.steps(1);
  CHECK(rig.detector.limits().learned().seconds(beat_checkpoint).value() < 0.5);
  save();
  rig.alone(0, beat_checkpoint_write, 120'000);
  CHECK(rig.found.empty());
  // Bytes are what moves there, and meetings of the ranks that wait are not.
  for (int i = 0; i < 10; ++i) {
    rig.ranks[0].beat.written_bytes += 1;
    rig.look(300'000);
  }
  CHECK(rig.found.empty());
  for (int i = 0; i < 620; ++i) {
    for (const RankObservation& one : rig.ranks) rig.enter(one.rank, beat_checkpoint_write), rig.wait(one.rank);
    rig.meet();
    rig.look(1'000);
  }
  REQUIRE(!rig.found.empty());
  CHECK(rig.found.back().level == HangLevel::act);
  CHECK(rig.found.back().of_storage);
  CHECK(!rig.detector.limits().learned().seconds(beat_checkpoint_write));
  // What was really long is reported.
  rig.detector.note_write(300);
  CHECK(rig.detector.limits().seconds(HangLevel::act, beat_checkpoint_write) == 1500);
  CHECK(rig.detector.limits().seconds(HangLevel::suspect, beat_checkpoint_write) == 450);
}

TEST_CASE("ranks that the kernel has blocked have the time of a file system that fails over") {
  HangTimeouts timeouts;
  timeouts.startup_s = 600;
  const auto acts_after = [&](hang_rig::Rig& rig) {
    for (int s = 0; s < 700; ++s) {
      rig.look(1'000);
      if (!rig.found.empty() && rig.found.back().level == HangLevel::act) return s;
    }
    return 700;
  };
  const auto warm = [&] {
    hang_rig::Rig rig(4, timeouts);
    for (int i = 0; i < 4; ++i) {
      rig.steps(10);
      for (const RankObservation& one : rig.ranks) rig.enter(one.rank, beat_checkpoint);
      rig.look(200);
    }
    return rig;
  };
  // In a section of files.
  hang_rig::Rig saving = warm();
  saving.ranks[1].process = ProcessState::blocked;
  saving.alone(1, beat_checkpoint, 100);
  CHECK(acts_after(saving) >= 598);
  CHECK(saving.found.back().of_storage);
  CHECK(saving.found.front().level == HangLevel::suspect);  // reported at once
  // In a step, alone: as ever, for that may be its device.
  hang_rig::Rig alone = warm();
  alone.ranks[1].process = ProcessState::blocked;
  alone.alone(1, "micro_batch", 100);
  CHECK(acts_after(alone) < 50);
  CHECK(!alone.found.back().of_storage);
  // Ranks of two hosts in a step: what they have in common is the storage.
  hang_rig::Rig two = warm();
  two.ranks[1].process = two.ranks[2].process = ProcessState::blocked;
  two.enter(2, "micro_batch");
  two.enter(1, "micro_batch"), two.wait(0), two.wait(3);
  CHECK(acts_after(two) >= 598);
  CHECK(two.found.back().of_storage);
}

TEST_CASE("who stood still with a file system is not blamed when that is over") {
  for (const bool seen_by_others : {true, false}) {
    CAPTURE(seen_by_others);
    hang_rig::Rig rig(4);
    rig.steps(20);
    for (RankObservation& one : rig.ranks) ++one.beat.step, rig.enter(one.rank, "micro_batch");
    if (seen_by_others) {  // the kernel has blocked ranks of all hosts, and their agents say so
      for (RankObservation& one : rig.ranks) one.process = ProcessState::blocked;
      rig.look(60'800);
    } else {  // nobody looks: agents and the lead wait for that file system as well
      rig.now_ms += 60'800;
      for (RankObservation& one : rig.ranks) one.idle_ms += 60'800;
    }
    // It is over, and nobody has moved yet.
    for (RankObservation& one : rig.ranks) one.process = ProcessState::running;
    rig.look(1'000);
    for (const HangFinding& finding : rig.found) CHECK(finding.level == HangLevel::suspect);
    // Who does not go on then has its time, and no more.
    rig.look(46'000);
    REQUIRE_FALSE(rig.found.empty());
    CHECK(rig.found.back().level == HangLevel::act);
    CHECK(rig.found.back().idle_s < 46);
  }
}

TEST_CASE("hang: once a launch of the job has started, a later one that does not start is found in minutes") {
  HangTimeouts timeouts;
  timeouts.startup_s = 1800;
  for (const std::int64_t start_ms : {3'000, 60'000, 400'000}) {
    CAPTURE(start_ms);
    hang_rig::Rig rig(2, timeouts);
    for (const int rank : {0, 1}) rig.enter(rank, beat_start);
    rig.look(start_ms);
    rig.steps(3);
    CHECK(rig.found.empty());
    rig.detector.new_launch(rig.now_ms);
    for (RankObservation& one : rig.ranks) one.beat.step = -1, rig.enter(one.rank, beat_start);
    const std::int64_t allowed_ms = std::clamp<std::int64_t>(10 * start_ms, 300'000, 1'800'000);
    rig.look(allowed_ms - 2'000);
    CHECK(rig.found.empty());
    rig.look(6'000);
    REQUIRE(rig.found.size() == 1);
    CHECK(rig.found.front().level == HangLevel::act);
    CHECK(rig.found.front().section == beat_start);
  }
}
