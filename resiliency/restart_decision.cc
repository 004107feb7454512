#include "resiliency/restart_decision.h"

#include <algorithm>
#include <utility>

#include "base/text/text.h"
#include "resiliency/taxonomy/fault_table.h"

namespace longhaul {

FaultView view_of(const DiagnosedFault& found, const ResiliencySettings& settings) {
  FaultView view;
  view.fault = to_string(found.fault);
  view.group = group_of(found.fault);
  view.scope = found.scope;
  view.rank = found.rank;
  if (!found.of_shared_storage) view.host = found.host;
  if (!found.host_lost.empty()) view.hosts_lost = {found.host_lost};
  if (!found.slow_host.empty()) {
    view.group = FaultGroup::infrastructure;
    view.hosts_lost.push_back(found.slow_host);
  } else if (found.bad_loss && settings.on_nan == "stop") {
    view.group = FaultGroup::hopeless;  // by no job either
  }
  const bool of_host = !found.host_lost.empty() || found.scope == FaultScope::host;
  const bool own_cause = of_host || (found.of_sums && !view.host.empty());
  view.cause = own_cause ? format("{} {}", view.fault, view.host) : found.cause;
  // Where memory ran out its own budget says what is tried next, on which host.
  const bool nobody = view.group == FaultGroup::memory || found.of_shared_storage;
  view.accuses = nobody ? Accusation::never : info_of(found.fault).accuses;
  view.at_ms = found.at_ms;
  return view;
}

void limit_offers(const ResiliencySettings& settings, int spares_left, TierOffers& offers) {
  if (settings.restarts == 0) offers.in_job = {false, "resiliency.restarts is 0"};
  offers.spares_left = spares_left;
  if (spares_left == 0) offers.swap = {false, settings.spares == 0 ? "the job has no spares" : "all spares are used"};
  if (settings.restarts == 0) offers.swap = offers.shrink = offers.in_job;
}

TierBudgets budgets_of(const ResiliencySettings& settings) {
  TierBudgets budgets;
  budgets.in_job = budgets.swap = settings.restarts;
  budgets.without_progress_max = std::max(1, settings.restarts) + 1;
  if (!settings.host_suspicion) budgets.lemon_faults = 1 << 30, budgets.floor_share = 0;
  return budgets;
}

RestartDecision decide_restart(const FaultView& fault, TierHistory history, const TierOffers& offers,
                               const ResiliencySettings& settings) {
  const TierBudgets budgets = budgets_of(settings);
  if (fault.saved_checkpoint) forgive(history, fault.at_ms, budgets);
  TierDecision decision = decide_tier(fault, history, offers, budgets);
  history.push_back(past_restart(fault, decision.tier));
  return {std::move(decision), std::move(history)};
}

}  // namespace longhaul
