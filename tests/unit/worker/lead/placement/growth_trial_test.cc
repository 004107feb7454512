#include "worker/lead/placement/growth_trial.h"

#include <doctest/doctest.h>

using namespace longhaul;
using Names = std::vector<std::string>;

namespace {

FaultView fault_on(const std::string& host) {
  FaultView view;
  view.fault = "disk_full", view.cause = "no space left on device", view.host = host;
  view.at_ms = 5'000;
  return view;
}

}  // namespace

TEST_CASE("growth on trial: the first launch without a step may be anybody's fault, the second is the nodes'") {
  GrowthTrial trial;
  CHECK(!trial.under_way());
  trial.launched();
  trial.launched();
  CHECK(!trial.is_theirs(fault_on("n3"), true));  // nobody came back
  trial.begin({"n3"}, 1'000);
  trial.launched();
  CHECK(!trial.is_theirs(fault_on("n1"), false));
  CHECK(!trial.is_theirs(fault_on("n3"), false));
  trial.launched();
  CHECK(trial.is_theirs(fault_on("n1"), false));
}

TEST_CASE("growth on trial: a node that is lost or hangs before its first step is not tried again") {
  GrowthTrial trial;
  trial.begin({"n3", "n4"}, 1'000);
  trial.launched();
  CHECK(trial.is_theirs(fault_on("n4"), true));
  CHECK(!trial.is_theirs(fault_on("n1"), true));  // another one's bad luck
  trial.over();
  CHECK(!trial.is_theirs(fault_on("n4"), true));
  trial.launched();
  CHECK(trial.launches() == 0);
}

TEST_CASE("growth on trial: what it cost is the nodes', goes on without them and uses up no budget") {
  GrowthTrial trial = GrowthTrial::of({"n3", "n4"}, 1'000, 1);
  trial.launched();
  FaultView view = fault_on("n1");
  view.group = FaultGroup::hopeless, view.scope = FaultScope::user;
  view.hosts_lost = {"n4"};
  trial.blame(view);
  CHECK(view.hosts_lost == Names{"n4", "n3"});
  CHECK(view.cause == "no step with n3, n4");

  TierOffers offers;
  offers.swap = {false, "no spare"};
  offers.dp_replicas = 2, offers.dp_replicas_lost_by_host = 0;
  TierHistory history;
  for (const std::int64_t at_ms : {500, 1'500, 2'500})
    history.push_back({at_ms, "killed", FaultScope::rank, "n1", false, RestartTier::in_job});
  TierBudgets budgets;
  budgets.without_progress_max = 3;
  CHECK(decide_tier(view, history, offers, budgets).tier == RestartTier::stop);
  trial.forgive(history);
  CHECK(!history[0].forgiven);  // before they came
  CHECK(history[1].forgiven);
  CHECK(history[2].forgiven);
  const TierDecision decision = decide_tier(view, history, offers, budgets);
  CHECK(decision.tier == RestartTier::shrink);
  CHECK(decision.hosts_to_leave == Names{"n3", "n4"});
}
