// One simulated training: a discrete-event model of a cluster that calls the policy code of the real thing,
// decide_restart, decide_retry, suspect_nodes and IntervalChooser, and accounts for time with the same GoodputLedger.
//
// The model. Faults come at exponential distances on the wall clock while the job holds its hosts, also during a
// recovery, which then starts anew; of which kind and on which host is drawn by their rates (lemons weigh more). A
// fault undoes the step it falls into. Its verdict comes after the kind's `detect`; the policy names a tier; stop,
// queue, start and load of that tier follow one another; training goes on from the newest whole copy that the tier can
// use. Saves stall all ranks, and one that is due before the one before is whole waits for it. Progress is that of the
// real thing, a whole checkpoint that is further than any before (saved_progress.h). What passes by itself, a file
// system or a switch that stands still, is waited for, and no host is blamed. A host that is left returns as a spare
// after `repair`; a shrunken training takes longer steps (same global batch) and grows again, by a restart after a
// save, when a host is back. Where a job ends the controller is asked; if it tries no other one, an operator takes
// `operator` to start it, and the ends before are forgotten, as after `longhaul resume`. A lead's history is of its
// job. Not modelled: slow ranks that nobody restarts, wall times, faults of spares, a failed save.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "resiliency/goodput/goodput_ledger.h"
#include "resiliency/simulate/fault_draws.h"
#include "resiliency/simulate/scenario.h"

namespace longhaul {

struct TrialPoint {
  double day = 0;
  double effective = 0;  // up to then, 0 to 1
};

// What was decided about one fault.
struct SimDecision {
  FaultView fault;  // as the policy saw it
  std::vector<std::string> hosts_left;
  RestartTier tier = RestartTier::stop;
  std::string reason;
  std::int64_t lost_steps = 0;
  double loaded_s = 0;  // from the fault until ranks are ready to take steps
};

struct SimulatedTrial {
  double effective = 0;                       // steps done times the time of a step with all replicas, over the length
  std::array<double, time_classes> shares{};  // of the length, by class
  std::int64_t steps = 0, lost_steps = 0;
  int faults = 0;
  int standstills = 0;                     // of them, passed by themselves
  std::array<int, restart_tiers> tiers{};  // decisions
  int hosts_left = 0, operators = 0;       // by the policy; stops that somebody had to see to
  bool ends = true;                        // its last save can be waited for
  double interval_s = 0;                   // between the most frequent saves, at the end
  std::vector<TrialPoint> days;            // once a day, if asked for
  std::vector<SimDecision> decisions;      // of faults that were played
};

// Policies that an earlier version had and this one has not, for comparisons (tests/bench/weeks_bars.cc).
struct FormerPolicies {
  bool anything_is_progress = false;  // whatever a job has written where a stage keeps its state
  // A file system that stands still is a hang, a switch that does so the silence of its hosts; ranks that are not gone
  // 10 s after SIGKILL cost their hosts.
  bool standstill_is_a_fault = false;
  bool last_write_is_a_hang = false;  // held to the limit of the stall that saves cost
};

// `scenario` at scale (Scenario::at_scale). The same seed and trial meet the same faults at the same times, whatever
// else of a scenario is changed, as long as the kinds and rates of its faults are not. `interval_s` > 0: a fixed
// interval for the most frequent saves. Pure.
SimulatedTrial run_trial(const Scenario& scenario, std::uint64_t seed, int trial, double interval_s = 0,
                         bool with_days = false, const FormerPolicies& former = {});

// The same with these faults, in the order of their times, and no others.
SimulatedTrial play_faults(const Scenario& scenario, std::vector<PlayedFault> faults);

}  // namespace longhaul
