// Which restart follows a fault of a launch, and what the past is with it. Pure: nothing is written and nothing
// changes; whoever does what the plan says keeps its `history`.
#pragma once

#include <string>

#include "resiliency/taxonomy/restart_tier.h"
#include "worker/lead/monitor/launch_guard.h"
#include "worker/lead/placement/growth_trial.h"
#include "worker/lead/placement/host_pool.h"
#include "worker/lead/placement/launch_plan.h"

namespace longhaul {

// The job at the moment of the fault. The references are borrowed for the length of one call.
struct RecoveryInput {
  const LeadOf& lead;
  const HostPool& hosts;
  const TierHistory& history;           // without this fault
  const GrowthTrial& trial;             // of nodes that have come back
  std::string step_maker;               // the node that makes the steps of the job (Slurm's stepmgr); "": none does
  bool step_maker_gone = false;         // whatever this fault is
  bool step_maker_gone_if_lost = true;  // where it is among the hosts that the fault has lost
  bool step_done = true;                // the launch has completed one
  TierOffer in_process;                 // what speaks for or against going on in the same processes
};

struct RecoveryPlan {
  TierDecision decision;
  FaultView fault;      // as it was decided upon: of nodes on trial it is theirs
  TierHistory history;  // with this fault and what is done about it
};

// What was tried before the newest checkpoint uses up no budget; what speaks against a node goes on speaking.
RecoveryPlan plan_recovery(const FaultView& fault, const RecoveryInput& input);
// The same once the ranks have ended. A training that went on before nodes came back does not end because of them:
// where it would, or would leave any of them, before a step is done, the fault is theirs and what was tried with them
// is forgotten.
RecoveryPlan plan_relaunch(const FaultView& fault, const RecoveryInput& input);

}  // namespace longhaul
