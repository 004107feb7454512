// How far a simulated training is: steps, saves and the time that both take, written into a goodput ledger. Time passes
// only here; what faults do about it is the policy's (trial.h).
#pragma once

#include <cmath>
#include <cstdint>

#include "resiliency/goodput/goodput_ledger.h"
#include "resiliency/simulate/save_clock.h"
#include "resiliency/simulate/scenario.h"
#include "resiliency/taxonomy/goodput_floor.h"

namespace longhaul {

// Of a time of the simulation, in seconds, as ledgers and the policy have it.
inline std::int64_t simulated_ms(double at_s) {
  return std::llround(at_s * 1e3);
}

class TrainingProgress {
 public:
  // `interval_s` > 0: a fixed interval for the most frequent saves.
  TrainingProgress(const Scenario& scenario, double interval_s);

  double now_s() const { return now_s_; }
  std::int64_t step() const { return step_; }
  std::int64_t furthest() const { return furthest_; }  // ever
  const GoodputLedger& ledger() const { return ledger_; }
  const SaveClock& global() const { return global_; }
  std::int64_t newest_copy(double now_s) const;  // that is whole then, in memory or a checkpoint
  const SaveClock& most_frequent_saves() const { return memory_.enabled() ? memory_ : global_; }
  // Steps done times the time of a step with all replicas, over so much time.
  double effective_after(double seconds) const;
  double interval_s() const;  // between the most frequent saves

  void run_with(int replicas);  // the same global batch: fewer replicas take longer steps
  void train_until(double limit_s);
  double next_review_s() const;
  void review();  // what was measured is reported to the choosers of intervals
  void end();     // at the length of the training

  void begin_job();  // another lead, which knows nothing of the goodput before
  // A part of the time in which no steps are done ends at `at_s`, where the clock stands then.
  void wait_until(double at_s) { now_s_ = at_s; }
  void report(GoodputFact::Kind kind, double at_s, double part_s = 0, std::int64_t step = -1);
  void report(GoodputFact::Kind kind) { report(kind, now_s_); }
  void files_stand_still(double from_s, double seconds) { global_.stood_still(from_s, seconds); }

  // A fault at `fault_s` of which is known at `verdict_s`: what is being saved is lost, and how much of the time before
  // was training.
  GoodputFact fault(double fault_s, double verdict_s);
  RecentGoodput recent_with(const GoodputFact& fault, double verdict_s);
  void add(const GoodputFact& fault) { ledger_.add(fault); }
  // From the newest whole save, those in memory among them or not; how many steps are lost.
  std::int64_t go_back(bool from_memory);
  // Goes on from before the step that the fault fell into, which is lost alone.
  std::int64_t leave_step_out() {
    into_step_s_ = 0;
    return 0;
  }
  // With more hosts: nothing is lost.
  void restart_after_save(const SimTier& costs);

 private:
  void train_whole_cycles(double limit_s);
  void train_some_steps(double limit_s, std::int64_t steps);
  void save(SaveClock& saves, double limit_s);
  SaveClock& most_frequent() { return memory_.enabled() ? memory_ : global_; }

  const Scenario& scenario_;
  double step_s_;  // with the replicas that run
  SaveClock memory_, global_;
  GoodputLedger ledger_{0, false};
  GoodputWindow window_;  // of it
  double now_s_ = 0, into_step_s_ = 0, reviewed_s_ = 0, steps_s_ = 0;
  std::int64_t step_ = 0, furthest_ = 0, reviewed_step_ = 0;
};

}  // namespace longhaul
