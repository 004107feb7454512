// Which restart a lead plans after a fault: a proposal that changes nothing until it is kept.
#include "worker/lead/recovery/recovery_plan.h"

#include <doctest/doctest.h>

using namespace longhaul;

namespace {
namespace recovery_plan {

struct Rig {
  LeadOf lead;
  HostPool hosts = HostPool({"n1", "n2", "n3"}, 2);
  TierHistory history;
  GrowthTrial trial;

  Rig() {
    lead.attempt.resiliency.restarts = 2;
    lead.attempt.resiliency.spares = 1;
    lead.task.kind = "pretrain";
    lead.job.step_maker = "n1";
  }
  RecoveryInput input() const { return {lead, hosts, history, trial, "", false, true, true, {}}; }
};

FaultView killed(const std::string& cause = "rank killed") {
  FaultView fault;
  fault.fault = "killed", fault.cause = cause, fault.rank = 1, fault.host = "n2", fault.at_ms = 1'000;
  return fault;
}

FaultView lost(const std::string& host) {
  FaultView fault = killed("host_unreachable " + host);
  fault.fault = "host_unreachable", fault.group = FaultGroup::infrastructure, fault.scope = FaultScope::host;
  fault.host = host, fault.hosts_lost = {host}, fault.accuses = Accusation::sure;
  return fault;
}

}  // namespace recovery_plan
}  // namespace

TEST_CASE("recovery plan: a proposal leaves the past as it was, and carries the past with this fault") {
  const recovery_plan::Rig rig;
  const RecoveryPlan plan = plan_recovery(recovery_plan::killed(), rig.input());
  CHECK(plan.decision.tier == RestartTier::in_job);
  CHECK(rig.history.empty());
  REQUIRE(plan.history.size() == 1);
  CHECK(plan.history[0].cause == "rank killed");
  CHECK(plan.history[0].tier == RestartTier::in_job);
}

TEST_CASE("recovery plan: tries before a new checkpoint use up no budget") {
  recovery_plan::Rig rig;
  FaultView fault = recovery_plan::killed();
  for (int i = 0; i < 2; ++i) rig.history = plan_recovery(fault, rig.input()).history;
  CHECK(plan_recovery(fault, rig.input()).decision.tier != RestartTier::in_job);
  fault.made_progress = fault.saved_checkpoint = true;
  CHECK(plan_recovery(fault, rig.input()).decision.tier == RestartTier::in_job);
}

TEST_CASE("recovery plan: a lost node is replaced by the spare, and by nothing once the maker of the steps is gone") {
  const recovery_plan::Rig rig;
  RecoveryInput input = rig.input();
  const TierDecision swap = plan_recovery(recovery_plan::lost("n2"), input).decision;
  CHECK(swap.tier == RestartTier::swap);
  CHECK(swap.hosts_to_leave == std::vector<std::string>{"n2"});
  input.step_maker = "n2";
  const TierDecision with_its_maker = plan_recovery(recovery_plan::lost("n2"), input).decision;
  CHECK(with_its_maker.tier == RestartTier::new_job);
  CHECK(with_its_maker.reason.find("node n2 made the steps of this job") != std::string::npos);
  input.step_maker_gone_if_lost = false;  // it is only slow, and makes steps on
  CHECK(plan_recovery(recovery_plan::lost("n2"), input).decision.tier == RestartTier::swap);
  input.step_maker = "n1", input.step_maker_gone = true;
  CHECK(plan_recovery(recovery_plan::lost("n2"), input).decision.tier == RestartTier::new_job);
}

TEST_CASE("recovery plan: restarts = 0 launches nothing again in this job") {
  recovery_plan::Rig rig;
  rig.lead.attempt.resiliency.restarts = 0;
  CHECK(!launches_again(plan_recovery(recovery_plan::killed(), rig.input()).decision.tier));
  CHECK(!launches_again(plan_recovery(recovery_plan::lost("n2"), rig.input()).decision.tier));
}

TEST_CASE("recovery plan: a fault that would end a training is the nodes' that came back, until a step is done") {
  recovery_plan::Rig rig;
  rig.trial = GrowthTrial::of({"n2"}, 500, 1);
  FaultView fault = recovery_plan::killed("no checkpoint can be read");
  fault.group = FaultGroup::hopeless, fault.host = "";
  RecoveryInput input = rig.input();
  CHECK(plan_relaunch(fault, input).decision.tier == RestartTier::stop);
  input.step_done = false;
  const RecoveryPlan plan = plan_relaunch(fault, input);
  CHECK(plan.decision.tier == RestartTier::swap);
  CHECK(plan.decision.hosts_to_leave == std::vector<std::string>{"n2"});
  CHECK(plan.fault.cause == "no step with n2");
  CHECK(plan.history.size() == 1);  // of the two plans that were made, the one that is carried out
}

TEST_CASE("recovery plan: what was tried with the nodes that came back is nobody's try") {
  recovery_plan::Rig rig;
  rig.trial = GrowthTrial::of({"n2"}, 500, 1);
  rig.history.push_back({700, "killed", FaultScope::rank, "n1", false, RestartTier::in_job});
  RecoveryInput input = rig.input();
  input.step_done = false;
  const RecoveryPlan plan = plan_relaunch(recovery_plan::lost("n2"), input);
  REQUIRE(plan.history.size() == 2);
  CHECK(plan.history[0].forgiven);
  CHECK(!rig.history[0].forgiven);
}
