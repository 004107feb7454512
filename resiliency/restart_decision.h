// From a fault whose class and culprit are known to the restart that follows: one path for the lead of a job
// (worker/lead/recovery) and for the simulator, so that what the one shows holds for the other. What is seen, how a
// class is found and what a restart costs is not decided here.
#pragma once

#include <cstdint>
#include <string>

#include "contracts/settings/job/resiliency.h"
#include "resiliency/taxonomy/restart_tier.h"

namespace longhaul {

// A fault as it was diagnosed.
struct DiagnosedFault {
  FaultClass fault = FaultClass::none;
  FaultScope scope = FaultScope::job;  // of the class (fault_table.h), unless more is known: most ranks say the same
  int rank = -1;                       // the culprit, -1 if none is named
  std::string host = {};               // the culprit's, "" if none is named
  std::string cause = {};              // fingerprint of its sentence
  // The node, and not a rank on it, is at fault: it was lost, or is not fit to work on. "": none.
  std::string host_lost = {};
  // Storage that nodes share is at fault, and none of them.
  bool of_shared_storage = false;
  bool of_sums = false;        // ranks have found it out together, by what the culprit gave to their sums
  std::string slow_host = {};  // of a rank that is too slow, by on_straggler: it is left for a spare; "": none
  bool bad_loss = false;       // on_nan decides
  std::int64_t at_ms = 0;
};

// As the policy sees it, without `all_ranks_alive`, `made_progress`, `saved_checkpoint` and `recent`, which belong to
// the launch and the job. A fault of a host, and one that the sums of all ranks show, has a cause of its own for each
// host; one of shared storage, and one of memory, accuses nobody.
FaultView view_of(const DiagnosedFault& found, const ResiliencySettings& settings);

// What a stage's settings, and the spares that are left, take away from what launcher and job can offer.
void limit_offers(const ResiliencySettings& settings, int spares_left, TierOffers& offers);

// The budgets of a stage whose choices of its kind are made (resiliency_for).
TierBudgets budgets_of(const ResiliencySettings& settings);

struct RestartDecision {
  TierDecision decision;
  TierHistory history;  // with this fault and what is done about it
};
// The restart that follows, by the budgets of a stage's settings. What was tried before the newest checkpoint uses up
// no budget; what speaks against a node goes on speaking. `settings` with the choices of the kind made
// (resiliency_for); `offers` limited. Pure.
RestartDecision decide_restart(const FaultView& fault, TierHistory history, const TierOffers& offers,
                               const ResiliencySettings& settings);

}  // namespace longhaul
