#include "worker/lead/recovery/recovery_plan.h"

#include <algorithm>
#include <utility>

#include "base/text/text.h"
#include "worker/lead/placement/rank_layout.h"

namespace longhaul {
namespace {

TierOffers offers_for(const FaultView& fault, const RecoveryInput& input) {
  TierOffers offers;
  const ResiliencySettings& settings = input.lead.attempt.resiliency;
  offers.skip = {false, "the training leaves steps out by itself"};
  offer_shrink(input.lead, input.hosts, fault.hosts_lost, offers);
  if (settings.restarts == 0) offers.in_job = {false, "resiliency.restarts is 0"};
  offers.spares_left = static_cast<int>(input.hosts.spares().size());
  if (offers.spares_left == 0)
    offers.swap = {false, settings.spares == 0 ? "the job has no spares" : "all spares are used"};
  if (settings.restarts == 0) offers.swap = offers.shrink = offers.in_job;
  const std::vector<std::string>& lost = fault.hosts_lost;
  const bool maker_lost = std::find(lost.begin(), lost.end(), input.step_maker) != lost.end();
  if (maker_lost ? input.step_maker_gone_if_lost : input.step_maker_gone)
    offers.in_job = offers.swap = offers.shrink = {
        false, format("node {} made the steps of this job (Slurm's stepmgr), and is gone", input.step_maker)};
  offers.in_process = input.in_process;
  return offers;
}

RecoveryPlan plan_after(const FaultView& fault, TierHistory history, const RecoveryInput& input) {
  const ResiliencySettings& settings = input.lead.attempt.resiliency;
  TierBudgets budgets;
  budgets.in_job = budgets.swap = settings.restarts;
  budgets.without_progress_max = std::max(1, settings.restarts) + 1;
  if (!settings.host_suspicion) budgets.lemon_faults = 1 << 30, budgets.floor_share = 0;
  if (fault.saved_checkpoint) forgive(history, fault.at_ms, budgets);
  TierDecision decision = decide_tier(fault, history, offers_for(fault, input), budgets);
  history.push_back(past_restart(fault, decision.tier));
  return {std::move(decision), fault, std::move(history)};
}

}  // namespace

RecoveryPlan plan_recovery(const FaultView& fault, const RecoveryInput& input) {
  return plan_after(fault, input.history, input);
}

RecoveryPlan plan_relaunch(const FaultView& fault, const RecoveryInput& input) {
  RecoveryPlan plan = plan_recovery(fault, input);
  const GrowthTrial& trial = input.trial;
  if (!trial.under_way() || input.step_done) return plan;
  if (launches_again(plan.decision.tier) && !trial.has_any_of(plan.decision.hosts_to_leave)) return plan;
  if (fault.group == FaultGroup::wall_time || fault.group == FaultGroup::preemption) return plan;
  TierHistory without_them = plan.history;
  without_them.pop_back();
  trial.forgive(without_them);
  trial.blame(plan.fault);
  RecoveryInput ended = input;
  ended.in_process = {false, "ranks that have ended cannot go on"};
  RecoveryPlan without = plan_after(plan.fault, std::move(without_them), ended);
  if (launches_again(without.decision.tier)) return without;
  return plan;  // not even so
}

}  // namespace longhaul
