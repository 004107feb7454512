// Steps that a training left out by itself, as faults: the engine judges each step before its update and, with
// on_spike.action = "skip", goes on without that update (event `spike`); with "rollback" it goes back to its last
// checkpoint and leaves out all data since (event `rolled_back`, contracts/events/roll_back_event.h). Nobody is ended
// for either, and it is a fault all the same, with class, verdict, tier and what it cost. The policy decides about it
// as about any other; its budget is the stage's own, on_spike.budget within budget_steps, which the engine has kept
// before it reported the step.
//
// Both are of tier `skip`: what distinguishes that from all other tiers is that data is left out, so that the training
// is not the undisturbed one any more. Processes and communicators stay, and nobody gives an order.
//
// A step that was left out uses up no budget of restarts, and forgives none: its history is one of its own.
//
// Pure: fed with events in the order in which they were written, also with those of earlier leads of the same attempt.
// What one of them has reported is not reported again.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/value/value.h"
#include "contracts/events/event.h"
#include "contracts/events/fault_event.h"
#include "contracts/events/roll_back_event.h"
#include "resiliency/taxonomy/restart_tier.h"

namespace longhaul {

class SkippedSteps {
 public:
  // Of a stage with these settings; one without `on_spike` has the defaults.
  explicit SkippedSteps(const Value& stage_settings = Value::make_table());

  // One of the two.
  struct Report {
    std::optional<FaultEvent> fault;          // a step was left out
    std::optional<std::int64_t> to_step;      // of the fault: it was rolled back from, to that step
    std::optional<RecoveredEvent> recovered;  // the first step completed after it
    Value line() const;                       // of the event
  };
  void take(const std::vector<Event>& events);
  // What is to be written, oldest first; each once.
  std::vector<Report> news();
  // Nothing is open, and nothing waits to be reported. What was reported until then, for another lead that goes on from
  // there.
  bool at_rest() const { return !open_ && pending_.empty(); }
  Value snapshot() const;
  void go_on_from(const Value& saved);

 private:
  struct Skip {
    std::int64_t at_ms = 0, step = -1;
    int launch = 0;
    std::optional<RollBackEvent> back;  // to where; nullopt: only its update was left out
  };
  struct Pending {
    Skip skip;
    Report report;
  };
  void skipped(const Event& event, const std::optional<RollBackEvent>& back);
  void completed(const Event& event);
  void reported_before(const Event& fault);
  TierDecision decide(const FaultView& view, const Skip& skip);

  std::int64_t budget_ = 0, budget_steps_ = 0;
  int launch_ = 0;
  std::optional<Skip> open_;     // no step was completed since
  bool newest_is_skip_ = false;  // of the faults that were reported
  std::vector<Pending> pending_;
  std::vector<std::pair<std::int64_t, PastRestart>> history_;  // by step, ascending
};

}  // namespace longhaul
