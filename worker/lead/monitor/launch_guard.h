// Room worker/lead/monitor
// What a lead sees of a running launch, and when it says that something is at fault.
// rank_watch.h gathers the ranks' state, launch_guard.h judges it; training_watch.h sees slow ranks, bad losses.
// event_tail.h follows events.jsonl; interval_watch.h and timeout_watch.h adjust and check times while it runs.
// It names a fault and restarts nothing: recovery and placement lie above it.
//
// Looks at the ranks and nodes of one launch and says when one of them is at fault. Pure: what is seen and the time
// come from outside. Where two looks are farther apart than a quarter of a second (a loaded machine, a job that was
// suspended), the time between them counts as no node's silence: what was on its way then may not have been read. A
// rank that has ended well, or told its exit code, is no business of the guard: its launcher says so.
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

namespace longhaul {

struct HostObservation {
  std::string host;
  bool ever_heard = false;     // its agent has reported in this job
  bool connected = false;      // its connection stands, as far as can be told, or broke for want of an answer
  std::int64_t silent_ms = 0;  // since its last word
  std::int64_t apart_ms = 0;   // since its connection broke; 0: it stands
  // What says for sure that it is not fit to work on, where it may be left for that; none otherwise.
  FaultClass unfit = FaultClass::none;
  std::string unfit_why = {};
  bool agent_comes = false;  // its agent alone has died, and another one is being started
};

struct GuardFinding {
  enum class Kind {
    rank_ended,
    host_lost,
    hang,
    stuck_collective,  // all ranks wait in collectives, and nobody stands outside of them
    unhealthy,         // a node is not fit to work on, though its ranks still do
    faulted,           // a rank has a fault that it survived, all processes live, and they wait for an order to go on
    desynchronised,    // all ranks wait for each other in different collectives
    no_progress,       // ranks beat, and no step is completed
    // By the stage's settings (training_watch.h), where nothing is at fault:
    slow_rank,  // its host is left for a spare
    bad_loss,   // the loss is no number
  };
  Kind kind = Kind::rank_ended;
  int rank = -1;     // culprit; -1: a whole node
  std::string host;  // of the culprit
  std::string section;
  ProcessState process = ProcessState::none;  // of the culprit of a hang, when it was found
  std::int64_t step = -1;
  std::string cause;                    // one sentence
  double detect_s = 0;                  // since the culprit's last sign of life
  FaultClass fault = FaultClass::none;  // of an unhealthy node: what was found
  bool of_storage = false;              // a hang of ranks that wait for a file system: no host is accused
  std::string no_order = {};            // of a stuck collective: why no order to go on reaches all ranks; "": it does
};

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
  // The first fault of the launch; nothing more once it was told. `demand`: what the settings ask for where nothing is
  // at fault.
  std::optional<GuardFinding> look(std::int64_t now_ms, std::vector<RankObservation> ranks,
                                   const std::vector<HostObservation>& hosts,
                                   const std::optional<GuardFinding>& demand = std::nullopt);
  // What the last look noticed and nobody is ended for yet; `launch` is left to the caller.
  const std::vector<WarningEvent>& warnings() const { return warnings_; }
  // A hang that was suspected at the last look, and whether the last look ended one.
  const std::optional<HangFinding>& suspicion() const { return suspicion_; }
  bool suspicion_over() const { return hangs_.over(); }
  const LearnedTimes& learned() const { return hangs_.learned(); }
  // How long saves took that came to their end: events `checkpoint`.
  void take(const std::vector<Event>& events);

  // What moves, where nothing may be decided about it.
  void note_progress(std::int64_t now_ms, const std::vector<RankObservation>& ranks);
  // The node that was lost, also where nothing may be done about it (no majority, told to stop); nothing is noted as
  // told.
  std::optional<GuardFinding> lost_host_at(std::int64_t now_ms, const std::vector<RankObservation>& ranks,
                                           const std::vector<HostObservation>& hosts);

 private:
  std::optional<GuardFinding> ended_rank(std::int64_t now_ms, const std::vector<RankObservation>& ranks);
  std::optional<GuardFinding> lost_host(const std::vector<RankObservation>& ranks,
                                        const std::vector<HostObservation>& hosts) const;
  bool is_lost(const HostObservation& host, const std::vector<RankObservation>& ranks,
               const std::vector<HostObservation>& hosts) const;
  bool is_gone(const HostObservation& host) const;
  std::int64_t unheard_ms(const HostObservation& host) const { return host.silent_ms - not_looked_ms(host.silent_ms); }
  bool is_one_of_several_silent(const HostObservation& host, const std::vector<RankObservation>& ranks,
                                const std::vector<HostObservation>& hosts) const;
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
  // How much of the last `silent_ms` nobody looked, because the lead itself stood still.
  std::int64_t not_looked_ms(std::int64_t silent_ms) const;
  void note_look(std::int64_t now_ms);
  bool is_one_held_elsewhere(const std::vector<RankObservation>& ranks, const std::string& host) const;
  // Since any rank of another node than `host` has moved, by whatever mark its page has.
  std::int64_t others_still_ms(std::int64_t now_ms, const std::string& host) const;
  // How long they may, and nothing is wrong: the longest that any section took in which one of them is, or one of that
  // node's. Where a section was never timed, `untimed_ms`.
  std::int64_t stillness_ms(const std::vector<RankObservation>& ranks, std::int64_t untimed_ms) const;

  struct Progress {
    std::string host;
    std::uint64_t mark = 0;
    std::int64_t at_ms = 0;  // until it is seen: since when it is looked for
    std::int64_t heard_ms = 0;
    bool seen = false;
  };
  ResiliencySettings settings_;
  bool own_program_;
  HangDetector hangs_;
  DesyncWatch desyncs_;
  StepStall stall_;
  ProgressWatch roll_backs_;
  std::vector<WarningEvent> warnings_;
  std::optional<HangFinding> suspicion_;
  bool told_ = false;
  std::int64_t epoch_ = 0;
  std::int64_t begun_ms_ = 0, now_ms_ = 0;
  struct Pause {
    std::int64_t until_ms = 0, length_ms = 0;
  };
  std::vector<Pause> pauses_;  // between two looks, oldest first; of the last minute
  std::map<int, Progress> progress_;
  std::int64_t longest_pause_ms_ = 0;     // of a rank of this launch between two movements, in whatever section
  std::map<int, std::int64_t> ended_ms_;  // by rank: when its process was first seen to be gone
};

}  // namespace longhaul
