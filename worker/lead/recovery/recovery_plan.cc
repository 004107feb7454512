#include "worker/lead/recovery/recovery_plan.h"

#include <algorithm>
#include <utility>

#include "base/text/text.h"
#include "resiliency/restart_decision.h"
#include "worker/lead/placement/rank_layout.h"

namespace longhaul {
namespace {

TierOffers offers_for(const FaultView& fault, const RecoveryInput& input) {
  TierOffers offers;
  const ResiliencySettings& settings = input.lead.attempt.resiliency;
  offers.skip = {false, "the training leaves steps out by itself"};
  offer_shrink(input.lead, input.hosts, fault.hosts_lost, offers);
  limit_offers(settings, static_cast<int>(input.hosts.spares().size()), offers);
  const std::vector<std::string>& lost = fault.hosts_lost;
  const bool maker_lost = std::find(lost.begin(), lost.end(), input.step_maker) != lost.end();
  if (maker_lost ? input.step_maker_gone_if_lost : input.step_maker_gone)
    offers.in_job = offers.swap = offers.shrink = {
        false, format("node {} made the steps of this job (Slurm's stepmgr), and is gone", input.step_maker)};
  offers.in_process = input.in_process;
  return offers;
}

RecoveryPlan plan_after(const FaultView& fault, TierHistory history, const RecoveryInput& input) {
  RestartDecision decided =
      decide_restart(fault, std::move(history), offers_for(fault, input), input.lead.attempt.resiliency);
  return {std::move(decided.decision), fault, std::move(decided.history)};
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
