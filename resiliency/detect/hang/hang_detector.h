// Room resiliency/detect/hang
// Whether a launch hangs, and because of which rank.
// hang_detector.h judges by hang_timeouts.h (limits) and learned_times.h; culprit.h names the rank to blame.
// step_stall.h, desync.h and stuck_collective.h find other ways to stand still; rank_observation.h is the input.
// It knows no fault class and no restart: it says who stands still, others decide what follows.
//
// Whether a launch hangs, and because of whom.
//
// Intuition: a step takes as long as a step takes; a rank that has not moved for several times as long never will.
// Rule: per rank, the time since anything on its page moved is compared with timeouts that belong to the section it
// stands in, learned from what it took so far in this section (learned_times.h). A rank that waits for others is not
// judged by its own section: whom it waits for is (culprit.h), so that one rank's long checkpoint is not the others'
// hang. Two levels: *suspect* names the culprit and costs nothing but a stack dump, *act* ends the launch.
//   - The first steps of a launch (warm-up) have the start-up timeout and teach nothing; so has, later, a section that
//     nobody has timed. A program that reports no steps keeps the start-up timeout.
//   - A process that was seen stopped (SIGSTOP) without a gap for the shortest time of the level, and has moved nothing
//     since, is judged by that, whatever its section and also in the first steps: no section takes long because of it.
//     Suspect: 2.5 step times or 1.5 s; act: hang_act, or the floor of learned timeouts. One that a debugger holds, or
//     that stands in a section which nobody monitors, keeps the times of its section.
//   - A wait for a file system has no usual length. The section `checkpoint_write` is acted upon after `startup_s` at
//   the
//     earliest, or `factor` times the longest write that a checkpoint event told of; its stays teach nothing, and only
//     bytes that are written are movement in it. `startup_s` is also what a process has that is blocked in the kernel
//     in a section that touches files (file_sections.h), or while ranks of several hosts are: the storage's fault.
//   - What stands still together with those who look at it, as all do whose file system fails over, is not judged by
//   that
//     time once it is over: a rank counts as standing still since it moved, without the gaps in which nothing was heard
//     of its host, and without the time that it waited for a file system, as soon as it does not any more.
//   - Stays in which a rank waited, or while its process was stopped, or that were not watched without gaps, teach
//     nothing either.
//   - Where nothing is heard of any host there is no finding: what cannot be seen is not known to stand still.
// The alternative, one deadline on collectives, takes ten minutes and cannot say who did not come.
//
// Pure: no clock and no I/O; 16,384 ranks take some milliseconds a look. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "resiliency/detect/hang/culprit.h"
#include "resiliency/detect/hang/file_sections.h"
#include "resiliency/detect/hang/hang_timeouts.h"
#include "resiliency/detect/hang/learned_times.h"
#include "resiliency/detect/hang/rank_observation.h"
#include "resiliency/detect/hang/stuck_collective.h"

namespace longhaul {

// Whatever changes here is movement.
std::uint64_t movement_mark(const BeatSnapshot& beat);

enum class HangLevel { suspect, act };
const char* to_string(HangLevel level);

struct HangFinding {
  HangLevel level = HangLevel::suspect;
  int rank = -1;        // whose time is over: the culprit, or one that waits for somebody broken
  std::string section;  // of that rank
  double idle_s = 0, timeout_s = 0;
  std::vector<Culprit> culprits;  // most likely first
  bool of_storage = false;        // the first of them, or who is judged, waits for a file system
  StuckCollective stuck;          // found: all ranks wait in collectives, and nobody keeps them
  // "suspect: rank 5 on n3 stands in micro_batch since 4.1 s (timeout 2 s); ..."
  std::string text() const;
};

class HangDetector {
 public:
  explicit HangDetector(HangTimeouts timeouts, LearnedTimes learned = {}, CulpritOptions options = {});

  // The ranks were started anew: nothing of the earlier launch counts but what was learned.
  void new_launch(std::int64_t now_ms);
  // The same processes were ordered to go on from an earlier state. They are as warm as they were: who stands still
  // again is judged by what was learned. How long they had stood still before the order counts no more, and their first
  // steps teach nothing.
  void restarted(std::int64_t now_ms);
  // Call it several times a second with all ranks of the launch, in any order. `now_ms` is of any steady clock. Each
  // level is reported once per hang; `act` may come without `suspect` before it.
  std::optional<HangFinding> observe(std::int64_t now_ms, const std::vector<RankObservation>& ranks);
  // Whether the last observation ended a hang that had been reported: its rank moves again.
  bool over() const { return over_; }
  bool hanging() const { return hang_.has_value(); }
  bool warm() const { return steps_seen_ >= timeouts_.warm_up_steps; }
  // Of this launch, the median of the last ones; 0 before the warm-up is over.
  double step_s() const;
  // A save's write took so long until it was done.
  void note_write(double seconds) { learned_.note(beat_checkpoint_write, seconds); }

  const LearnedTimes& learned() const { return learned_; }
  // What applies now to a rank that stands in this section; 0: unmonitored.
  double timeout_s(HangLevel level, const std::string& section) const;

 private:
  struct Track {
    std::uint64_t mark = 0;      // of everything that may move
    std::int64_t moved_ms = 0;   // when it last did
    std::int64_t looked_ms = 0;  // when it was last heard of
    std::int64_t step = -1, first_step = -1, step_ms = 0;
    std::uint32_t polls = 0;
    std::int64_t polled_ms = 0;
    std::string section;
    bool teaches = false;  // this stay, so far
    bool waited = false;
    std::int64_t stopped_ms = -1;  // since when it was seen stopped at every look; -1: it is not
    // Of the time since it moved: in which nothing was heard of its host, or this lead did not look; and in which it
    // waited for a file system.
    std::int64_t unseen_ms = 0, stored_ms = 0;
  };
  struct Hang {
    int rank = -1;
    std::int64_t moved_ms = 0;  // of that rank, when it was reported
    HangLevel level = HangLevel::suspect;
  };
  struct Judged {
    std::size_t index = 0;
    HangLevel level = HangLevel::suspect;
    double idle_s = 0, timeout_s = 0;
  };
  struct GroupTime {
    std::int64_t moved_ms = 0;  // the last of its members
    std::int64_t heard_ms = 0;  // all of them have been heard of since
  };
  using GroupTimes = std::unordered_map<std::string_view, GroupTime>;
  void follow(std::int64_t now_ms, const RankObservation& seen);
  void note_step(std::int64_t now_ms, Track& track, std::int64_t step);
  std::int64_t moved_ms(int rank) const;  // of a rank without a page: when it was started
  // For how long nothing is known of it. Agents report twice a second where nothing changes: silence of half the time
  // after which a host counts as gone still says that its ranks stand where they stood.
  std::int64_t unheard_ms(const RankObservation& seen) const;
  // Without the time in which nothing is known of it: that is not standing still.
  double idle_s(std::int64_t now_ms, const RankObservation& seen) const;
  std::optional<Judged> judge(std::int64_t now_ms, const std::vector<RankObservation>& ranks, const WaitGraph& graph,
                              HangLevel level) const;
  std::optional<Judged> judge_one(std::int64_t now_ms, const std::vector<RankObservation>& ranks,
                                  const WaitGraph& graph, const GroupTimes& groups, std::size_t index,
                                  HangLevel level) const;
  std::optional<Judged> judge_stopped(const RankObservation& seen, std::size_t index, HangLevel level) const;
  void excuse_waiting(std::int64_t now_ms, const std::vector<RankObservation>& ranks);
  double longest_allowed_elsewhere(std::int64_t now_ms, const std::vector<RankObservation>& ranks,
                                   HangLevel level) const;
  double base_suspect_s() const;
  bool waits_for_storage(const RankObservation& seen) const;
  double allowed_s(HangLevel level, const RankObservation& seen) const;

  HangTimeouts timeouts_;
  LearnedTimes learned_;
  CulpritOptions options_;
  std::int64_t launched_ms_ = 0;
  std::map<int, Track> tracks_;
  std::int64_t steps_seen_ = 0;
  bool was_warm_ = false;             // before it was restarted
  std::int64_t not_before_ms_ = 0;    // no standing still counts that was before
  std::vector<double> step_times_s_;  // a ring of the last ones
  std::size_t next_step_time_ = 0;
  std::optional<Hang> hang_;
  bool over_ = false;
  bool several_blocked_ = false;  // hosts with ranks that are blocked in the kernel
};

}  // namespace longhaul
