// Room resiliency/detect/hang
// Whether a launch hangs, and because of which rank.
// hang_detector.h compares rank_movement.h (since when) with hang_timeouts.h (how long is too long, learned_times.h);
// culprit.h names the rank to blame.
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
//     the earliest, or `factor` times the longest write that a checkpoint event gave; its stays teach nothing, and only
//     bytes that are written are movement in it. `startup_s` is also what a process has that is blocked in the kernel
//     in a section that touches files (file_sections.h), or while ranks of several hosts are: the storage's fault.
//   - What stands still together with those who look at it, as all do whose file system fails over, is not judged by
//     that time once it is over (rank_movement.h).
//   - Where nothing is heard of any host there is no finding: what cannot be seen is not known to stand still.
// The alternative, one deadline on collectives, takes ten minutes and cannot say who did not come.
//
// Pure: no clock and no I/O; 16,384 ranks take some milliseconds a look. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "resiliency/detect/hang/culprit.h"
#include "resiliency/detect/hang/hang_timeouts.h"
#include "resiliency/detect/hang/learned_times.h"
#include "resiliency/detect/hang/rank_movement.h"
#include "resiliency/detect/hang/rank_observation.h"
#include "resiliency/detect/hang/stuck_collective.h"

namespace longhaul {

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
  // A save's write took so long until it was done.
  void note_write(double seconds) { limits_.note_stay(beat_checkpoint_write, seconds); }

  const StandstillLimits& limits() const { return limits_; }

 private:
  struct Hang {
    int rank = -1;
    std::int64_t moved_ms = 0;  // of that rank, when it was reported
    HangLevel level = HangLevel::suspect;
  };
  bool may_hang(std::int64_t now_ms, const std::vector<RankObservation>& ranks) const;
  std::vector<RankObservation> with_times(std::int64_t now_ms, const std::vector<RankObservation>& ranks) const;

  StandstillLimits limits_;
  CulpritOptions options_;
  RankMovement movement_;
  std::optional<Hang> hang_;
  bool over_ = false;
  std::int64_t launched_ms_ = 0;
  bool has_begun_ = false;  // all ranks are past the section `start`
};

}  // namespace longhaul
