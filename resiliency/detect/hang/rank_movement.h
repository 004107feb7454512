// Since when each rank of a launch has stood still, from successive observations of their pages.
//
// A rank stands still since it moved, without the time in which nothing was heard of its host or nobody looked, and
// without the time that it waited for a file system, as soon as it does not any more. Stays that say how long a section
// takes are noted in the limits: none in which the rank waited, whose process was stopped, that began before the launch
// was warm, or that was not watched without gaps.
//
// Pure: times are handed in. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "resiliency/detect/hang/culprit.h"
#include "resiliency/detect/hang/hang_timeouts.h"
#include "resiliency/detect/hang/rank_observation.h"

namespace longhaul {

// Whatever changes here is movement.
std::uint64_t movement_mark(const BeatSnapshot& beat);

class RankMovement {
 public:
  explicit RankMovement(const CulpritOptions& options) : options_(options) {}

  void new_launch(std::int64_t now_ms);
  // The same processes go on from an earlier state: how long they stood still before counts no more.
  void restarted(std::int64_t now_ms);
  void observe(std::int64_t now_ms, const std::vector<RankObservation>& ranks, StandstillLimits& limits);
  // The rank may have waited for others in this stay, which therefore teaches nothing.
  void excuse(int rank);

  std::int64_t moved_ms(int rank) const;  // of a rank without a page: when it was started
  // Until when something is known of it. Agents report twice a second where nothing changes: silence of half the time
  // after which a host counts as gone still says that its ranks stand where they stood.
  std::int64_t known_until_ms(std::int64_t now_ms, const RankObservation& seen) const;
  double idle_s(std::int64_t now_ms, const RankObservation& seen) const;
  // For how long it has been seen stopped without a gap, and has not moved; nothing: it is not.
  std::optional<double> stopped_s(const RankObservation& seen) const;
  // Since its wait was last polled; -1: it does not wait, or its program does not count.
  std::int64_t unpolled_ms(const RankObservation& seen) const;
  bool waits_for_storage(const RankObservation& seen) const;

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
  const Track* track_of(int rank) const;
  void follow(std::int64_t now_ms, const RankObservation& seen, StandstillLimits& limits);
  static void note_step(std::int64_t now_ms, Track& track, std::int64_t step, StandstillLimits& limits);

  CulpritOptions options_;
  std::int64_t launched_ms_ = 0;
  std::int64_t not_before_ms_ = 0;  // no standing still counts that was before
  std::map<int, Track> tracks_;
  bool several_blocked_ = false;  // hosts with ranks that are blocked in the kernel
};

}  // namespace longhaul
