// Which restart a fault asks for: the cheapest one that can work, as a pure function of the fault, of what was tried
// before, and of what launcher, site and job offer. The lead asks it for every fault, and the simulator asks the same.
//
// The rule, in the order in which it is applied:
//   1. What no restart cures (bad input, a time limit, a cancelled job) stops.
//   2. The same cause three times without progress stops; so do ten restarts without any, whatever their causes, unless
//      these are faults of hosts: a large machine may lose several before the first step.
//   3. The fault itself names the lowest tier: a step that can be left out is skipped; ranks that are all alive roll
//   back
//      in process; ranks that ended are started again on the same hosts; a host that is gone or unfit is swapped, or
//      the training goes on with fewer data-parallel replicas; an allocation that is lost needs a new job.
//   4. A host that a fault accuses for sure, or that has its second fault (a lemon, lemon_host.h), is left at this
//      restart, if a spare is there for it; if not, the decision says so and goes on as for any other host.
//   5. Where too little of the last two hours was training, and most restarts in them are for this host or this cause
//      (goodput_floor.h), its host is left, also where that costs replicas or the job; without a host that is accused
//      another job is asked for.
//   6. Every tier has a budget per cause; when it is used up, or the tier is not offered, the next one up is taken. A
//      fault of the user's own program never costs a host or a job: after the in-job budget it stops.
//
// Cures are not ranked by measured success: with a handful of faults per cause there is nothing to learn from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "resiliency/taxonomy/accusation.h"
#include "resiliency/taxonomy/fault_class.h"
#include "resiliency/taxonomy/fault_scope.h"

namespace longhaul {

// Cheapest first. Written by name in events.
enum class RestartTier {
  skip,        // leave the step out and go on from the snapshot before it
  in_process,  // the processes stay: new communicators, back to the snapshot in memory
  in_job,      // new processes on the same hosts
  swap,        // new processes, spare hosts in place of those that are left
  shrink,      // new processes, fewer data-parallel replicas and the same global batch until a replacement arrives
  new_job,     // the allocation is given back; the controller decides about the next (decide_retry)
  stop,        // with the reason
};
inline constexpr int restart_tiers = static_cast<int>(RestartTier::stop) + 1;
const char* to_string(RestartTier tier);

// How much of the time just before a fault was training: steps done for the first time.
inline constexpr std::int64_t goodput_window_ms = 2 * 3'600'000;
struct RecentGoodput {
  double training = 1;       // share of it
  std::int64_t over_ms = 0;  // at most goodput_window_ms; 0: nothing is known
};

// A fault as the policy sees it.
struct FaultView {
  std::string fault;  // name of its class, for texts: "crash", "gpu_lost"
  FaultGroup group = FaultGroup::application;
  FaultScope scope = FaultScope::rank;
  int rank = -1;                        // the culprit, -1 if none is named
  std::string host;                     // the culprit's, "" if none is named
  std::vector<std::string> hosts_lost;  // gone, or not fit to run on: no restart may use them
  bool all_ranks_alive = false;         // nobody has ended and nobody is stuck beyond recall
  bool skippable = false;               // the step's data or its loss is at fault, not a program or a machine
  std::string cause;                    // fingerprint: one root cause, one text; a host's own fault carries the host
  bool made_progress = false;           // got further than the restart before it, if only by copies on the nodes
  bool saved_checkpoint = false;        // a whole one, further than any before
  std::int64_t at_ms = 0;
  // Whether it speaks against `host`: by its class (taxonomy/fault_table.h), unless more is known of it.
  Accusation accuses = Accusation::never;
  RecentGoodput recent = {};
};

// A fault that was there before, and what was done about it.
struct PastRestart {
  std::int64_t at_ms = 0;
  std::string cause;
  FaultScope scope = FaultScope::rank;
  std::string host;
  bool made_progress = false;  // as of FaultView
  RestartTier tier = RestartTier::in_job;
  std::string fault = {};  // as of FaultView
  Accusation accuses = Accusation::never;
  bool forgiven = false;  // uses up no budget any more; what it says of its host stays
};
PastRestart past_restart(const FaultView& fault, RestartTier tier);
using TierHistory = std::vector<PastRestart>;  // oldest first, without the fault that is being decided

// What launcher, site and job can offer; whoever refuses says why.
struct TierOffer {
  bool offered = true;
  std::string refusal;  // "mpirun ends every rank when one ends"; read where offered is false
};
struct TierOffers {
  TierOffer skip, in_process, in_job, swap, shrink, new_job;
  int spares_left = 0;               // healthy hosts in the allocation that hold no ranks
  int dp_replicas = 1;               // now
  int dp_replicas_min = 1;           // below that a training is not worth its hosts
  int dp_replicas_lost_by_host = 1;  // at most so many replicas lose a rank with one host

  const TierOffer& of(RestartTier tier) const;  // stop is always offered
};

struct TierBudgets {
  int skip = 3, in_process = 2, in_job = 3, swap = 3;   // restarts per cause
  int same_cause_max = 3;                               // without progress; the last of them stops
  int without_progress_max = 10;                        // of any causes that accuse no host
  int lemon_faults = 2;                                 // faults of one host that make it a lemon
  std::int64_t forgotten_after_ms = 6 * 3'600'000;      // older restarts use up no budget of a tier
  std::int64_t lemon_memory_ms = 7 * 24 * 3'600'000LL;  // older faults say nothing of a host
  double floor_share = 0.3;                             // of the last two hours that has to be training; 0: no floor
  int floor_restarts = 5;                               // of one host or cause in them; one more is too many
  std::int64_t floor_least_ms = 30 * 60'000;            // of a younger training nothing is said
};

struct TierDecision {
  RestartTier tier = RestartTier::stop;
  std::vector<std::string> hosts_to_leave;  // sorted, each once; for a new job: to exclude
  std::string reason;                       // for events and people, with what was passed over and why
  bool below_floor = false;                 // the floor of goodput has decided
};
TierDecision decide_tier(const FaultView& fault, const TierHistory& history, const TierOffers& offers,
                         const TierBudgets& budgets = {});

// For whoever has saved a whole checkpoint further than any before: faults of programs and processes use up no budget
// any more. A copy on the nodes is not enough: it is made every few steps, and would forgive a fault every few steps.
// Those that speak against a host are kept for that, as long as they do; a host that fails every few hours makes
// progress in between. Those of the last two hours are kept, for the floor of goodput.
void forgive(TierHistory& history, std::int64_t now_ms, const TierBudgets& budgets = {});

// Whether faults of this scope are a host's, a device's or a link's own. The machine pays for them: they are neither
// forgiven nor counted as tries of the program.
bool accuses_host(FaultScope scope);

}  // namespace longhaul
