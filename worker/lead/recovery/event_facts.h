// Room worker/lead/recovery
// What a lead needs between a fault and the next completed step: facts of the past, causes, times.
// event_facts.h collects what events have said so far; failure_lines.h finds the cause in the ranks' logs.
// fault_diagnosis.h says why a launch ended; recovery_plan.h which restart follows (resiliency/taxonomy).
// skipped_steps.h treats steps that the engine left out; restart_order.h waits for an in-process restart.
// Agents and the lead itself are unknown here: what they know comes in as values.
//
// What the events of an attempt have said so far that decisions about faults are made of. Every event is taken once,
// so that a training of weeks with hundreds of faults reads its events no more often than one without. Pure.
//
// Progress is a whole checkpoint that is further than any before (resiliency/saved_progress.h), counted from where a
// training went back to: after a roll-back, or where weights were found to be unsound, what was saved later is of no
// use to it any more. Copies on the nodes get a training further as well, but end with its job.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/value/value.h"
#include "contracts/events/event.h"
#include "contracts/events/silent_corruption.h"
#include "resiliency/saved_progress.h"

namespace longhaul {

class EventFacts {
 public:
  // In the order in which they were written.
  void take(const std::vector<Event>& events);

  // Newest steps: of anything that ranks may go on from, and of a whole checkpoint. -1: there is none.
  struct Steps {
    std::int64_t saved = -1, checkpoint = -1;
    bool operator==(const Steps&) const = default;
  };
  const Steps& steps() const { return steps_; }
  std::int64_t saved_step() const { return steps_.saved; }
  // Since the newest fault that was judged.
  struct Progress {
    bool further = false, checkpoint = false;
  };
  Progress progress() const {
    return {got_further(steps_.saved, judged_.saved), got_further(steps_.checkpoint, judged_.checkpoint)};
  }
  void progress_judged() { judged_ = steps_; }
  const Steps& judged() const { return judged_; }
  void set_judged(const Steps& steps) { judged_ = steps; }

  // Of the newest whole checkpoint that nothing has ruled out since; begins with what earlier jobs have left.
  std::int64_t whole_step() const { return whole_.newest(); }
  void begin_with(std::int64_t whole_step) { whole_ = SavedProgress(whole_step); }
  // What the rank has said of its newest fault that it survived; "": nothing, or all that it said was decided upon.
  std::string fault_of(int rank) const;
  void faults_decided() { faults_.clear(), corruption_.clear(); }
  // Why the ranks of the newest launch have stopped by themselves: as they were asked to, or because after another step
  // there would be no time for a save; "": they have not.
  const std::string& stopped() const { return stopped_; }
  // As reported_corruption() finds it, of what was reported since a fault was decided last.
  std::optional<SilentCorruption> corruption(int launch) const;

  // Nothing was said that is not decided upon. What was reported until then, for another lead that goes on from there.
  bool at_rest() const { return faults_.empty() && corruption_.empty(); }
  Value snapshot() const;
  static EventFacts of(const Value& saved);

 private:
  void go_back_to(std::int64_t step);

  Steps steps_, judged_;
  SavedProgress whole_;
  std::map<int, std::string> faults_;
  std::vector<Event> corruption_;  // the newest, if there is one
  std::string stopped_;
};

}  // namespace longhaul
