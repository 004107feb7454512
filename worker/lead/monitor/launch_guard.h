// Room worker/lead/monitor
// What a lead sees of a running launch, and when it says that something is at fault.
// rank_watch.h gathers the ranks' state, launch_guard.h judges it (host_loss.h for nodes); training_watch.h sees slow
// ranks, bad losses. event_tail.h follows events.jsonl; interval_watch.h and timeout_watch.h adjust and check times
// while it runs. It names a fault and restarts nothing: recovery and placement lie above it.
//
// Looks at the ranks and nodes of one launch and says when one of them is at fault: look() asks one detector after the
// other. Pure: what is seen and the time come from outside. A rank that has ended well, or reported its exit code, is
// no business of the guard: its launcher says so.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "contracts/events/event.h"
#include "contracts/events/warning_event.h"
#include "contracts/settings/job/resiliency.h"
#include "resiliency/detect/hang/desync_watch.h"
#include "resiliency/detect/hang/hang_detector.h"
#include "resiliency/detect/hang/progress_watch.h"
#include "resiliency/detect/hang/rank_observation.h"
#include "resiliency/detect/hang/step_stall.h"
#include "resiliency/taxonomy/fault_class.h"
#include "worker/lead/monitor/guard_finding.h"
#include "worker/lead/monitor/host_loss.h"

namespace longhaul {

// All processes are there and run, and none has come past its start.
bool has_not_started(const std::vector<RankObservation>& ranks);

class LaunchGuard {
 public:
  // `own_program`: the ranks are the engine's and stand or fall together; programs of others may end one by one, and
  // are looked at once they have beaten. `learned`: of earlier launches.
  LaunchGuard(const ResiliencySettings& settings, bool own_program, LearnedTimes learned = {});

  void new_launch(std::int64_t now_ms, std::int64_t epoch);
  // The same of a launch that another lead has started and is lost since then: its ranks may have stood still before
  // anybody looks, and their pages say for how long.
  void adopt_launch(std::int64_t now_ms, std::int64_t epoch, std::int64_t lost_ms);
  // The ranks were ordered to go on in-process, in this epoch: what they show of an earlier one is over.
  void restarted(std::int64_t now_ms, std::int64_t epoch);
  // The first fault of the launch; nothing more once it was reported. `demand`: what the settings ask for where nothing
  // is at fault.
  std::optional<GuardFinding> look(std::int64_t now_ms, std::vector<RankObservation> ranks,
                                   const std::vector<HostObservation>& hosts,
                                   const std::optional<GuardFinding>& demand = std::nullopt);
  // What the last look noticed and nobody is ended for yet; `launch` is left to the caller.
  const std::vector<WarningEvent>& warnings() const { return warnings_; }
  // A hang that was suspected at the last look, and whether the last look ended one.
  const std::optional<HangFinding>& suspicion() const { return suspicion_; }
  bool suspicion_over() const { return hangs_.over(); }
  const LearnedTimes& learned() const { return hangs_.limits().learned(); }
  // How long saves took that came to their end: events `checkpoint`.
  void take(const std::vector<Event>& events);

  bool ends_hangs() const { return settings_.on_hang != "report" && settings_.on_hang != "ignore"; }
  // What moves, where nothing may be decided about it.
  void note_progress(std::int64_t now_ms, const std::vector<RankObservation>& ranks) {
    host_loss_.note_progress(now_ms, ranks);
  }
  // The node that was lost, also where nothing may be done about it (no majority, asked to stop); nothing is noted as
  // reported.
  std::optional<GuardFinding> lost_host_at(std::int64_t now_ms, const std::vector<RankObservation>& ranks,
                                           const std::vector<HostObservation>& hosts);

 private:
  std::optional<GuardFinding> ended_rank(std::int64_t now_ms, const std::vector<RankObservation>& ranks);
  std::optional<GuardFinding> unfit_host(const std::vector<RankObservation>& ranks,
                                         const std::vector<HostObservation>& hosts) const;
  std::optional<GuardFinding> faulted_rank(const std::vector<RankObservation>& ranks) const;
  // Ranks that have begun and not come to their end: the others wait for nobody, and nobody waits for them.
  std::vector<RankObservation> at_work(std::vector<RankObservation> ranks) const;
  std::optional<GuardFinding> desynchronised(std::int64_t now_ms, const std::vector<RankObservation>& ranks);
  // `finished`: some ranks have come to their end, so that others may wait for one of them.
  std::optional<GuardFinding> hang(std::int64_t now_ms, const std::vector<RankObservation>& ranks, bool finished);
  static void stuck_in_collective(const HangFinding& finding, GuardFinding& found);
  void begin(std::int64_t now_ms, std::int64_t epoch);
  std::optional<GuardFinding> no_progress(std::int64_t now_ms, const std::vector<RankObservation>& ranks);
  void warn(const char* kind, const char* fault_class, const GuardFinding& found);

  ResiliencySettings settings_;
  bool own_program_;
  HangDetector hangs_;
  HostLoss host_loss_;
  DesyncWatch desyncs_;
  StepStall stall_;
  ProgressWatch roll_backs_;
  std::vector<WarningEvent> warnings_;
  std::optional<HangFinding> suspicion_;
  bool reported_ = false;
  std::int64_t epoch_ = 0;
  std::map<int, std::int64_t> ended_ms_;  // by rank: when its process was first seen to be gone
};

}  // namespace longhaul
