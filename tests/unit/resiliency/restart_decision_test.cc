// The way from a diagnosed fault to its restart that the lead and the simulator go alike.
#include "resiliency/restart_decision.h"

#include <doctest/doctest.h>

namespace longhaul {
namespace {

ResiliencySettings training_settings() {
  return resiliency_for({}, "pretrain");
}

DiagnosedFault fault_of(FaultClass fault, FaultScope scope) {
  return {.fault = fault, .scope = scope, .rank = 3, .host = "n2", .cause = "what it said", .at_ms = 5};
}

}  // namespace

TEST_CASE("restart decision: a fault of a host has a cause of its own for each host, one of a rank that of its words") {
  const FaultView rank = view_of(fault_of(FaultClass::killed, FaultScope::rank), training_settings());
  CHECK(rank.cause == "what it said");
  CHECK(rank.accuses == Accusation::doubtful);
  CHECK(rank.hosts_lost.empty());
  CHECK(rank.at_ms == 5);
  DiagnosedFault lost = fault_of(FaultClass::host_unreachable, FaultScope::host);
  lost.host_lost = "n2";
  const FaultView host = view_of(lost, training_settings());
  CHECK(host.cause == "host_unreachable n2");
  CHECK(host.hosts_lost == std::vector<std::string>{"n2"});
  CHECK(host.accuses == Accusation::sure);
  DiagnosedFault flipped = fault_of(FaultClass::silent_corruption, FaultScope::gpu);
  CHECK(view_of(flipped, training_settings()).cause == "what it said");
  flipped.of_sums = true;
  CHECK(view_of(flipped, training_settings()).cause == "silent_corruption n2");
}

TEST_CASE("restart decision: shared storage and memory accuse nobody") {
  DiagnosedFault storage = fault_of(FaultClass::file_system, FaultScope::host);
  CHECK(view_of(storage, training_settings()).host == "n2");
  CHECK(view_of(storage, training_settings()).accuses == Accusation::doubtful);
  storage.of_shared_storage = true;
  CHECK(view_of(storage, training_settings()).host.empty());
  CHECK(view_of(storage, training_settings()).accuses == Accusation::never);
  const DiagnosedFault memory = fault_of(FaultClass::out_of_memory, FaultScope::host);
  CHECK(view_of(memory, training_settings()).accuses == Accusation::never);
  CHECK(view_of(memory, training_settings()).host == "n2");
}

TEST_CASE("restart decision: a slow rank's host counts as lost, and on_nan = stop is hopeless") {
  DiagnosedFault slow = fault_of(FaultClass::slow_rank, FaultScope::host);
  CHECK(view_of(slow, training_settings()).group == FaultGroup::none);
  slow.slow_host = "n2";
  CHECK(view_of(slow, training_settings()).group == FaultGroup::infrastructure);
  CHECK(view_of(slow, training_settings()).hosts_lost == std::vector<std::string>{"n2"});
  ResiliencySettings settings = training_settings();
  settings.on_nan = "stop";
  DiagnosedFault nan = fault_of(FaultClass::loss_nan, FaultScope::job);
  CHECK(view_of(nan, settings).group == FaultGroup::application);
  nan.bad_loss = true;
  CHECK(view_of(nan, settings).group == FaultGroup::hopeless);
  CHECK(view_of(nan, training_settings()).group == FaultGroup::application);
}

TEST_CASE("restart decision: budgets are those of the settings, and a new checkpoint fills them up") {
  ResiliencySettings settings = training_settings();
  settings.restarts = 2;
  FaultView fault = view_of(fault_of(FaultClass::program, FaultScope::rank), settings);
  TierHistory history;
  fault.made_progress = true;  // by copies on the nodes alone
  for (int i = 0; i < 2; ++i) {
    const RestartDecision decided = decide_restart(fault, history, {}, settings);
    CHECK(decided.decision.tier == RestartTier::in_job);
    history = decided.history;
  }
  CHECK(history.size() == 2);
  CHECK(decide_restart(fault, history, {}, settings).decision.tier == RestartTier::new_job);
  fault.saved_checkpoint = true;
  CHECK(decide_restart(fault, history, {}, settings).decision.tier == RestartTier::in_job);
}

TEST_CASE(
    "restart decision: without progress a job stops after one restart more than resiliency.restarts, and one at 0") {
  for (const int restarts : {0, 1, 2, 4}) {
    CAPTURE(restarts);
    ResiliencySettings settings = training_settings();
    settings.restarts = restarts;
    TierHistory history;
    int tries = 0;
    for (bool stopped = false; !stopped && tries < 20; ++tries) {
      DiagnosedFault fault = fault_of(FaultClass::program, FaultScope::rank);
      fault.cause = std::string(1, static_cast<char>('a' + tries));  // another one each time
      const RestartDecision decided = decide_restart(view_of(fault, settings), history, {}, settings);
      stopped = decided.decision.tier == RestartTier::stop;
      history = decided.history;
    }
    CHECK(tries == (restarts == 0 ? 2 : restarts + 1));  // the last of them is the one that stops
  }
}

TEST_CASE("restart decision: a host with a second fault is left, unless host_suspicion is off") {
  for (const bool suspicion : {true, false}) {
    CAPTURE(suspicion);
    ResiliencySettings settings = training_settings();
    settings.host_suspicion = suspicion;
    TierOffers offers;
    offers.spares_left = 1;
    FaultView fault = view_of(fault_of(FaultClass::killed, FaultScope::rank), settings);
    fault.made_progress = true;
    const RestartDecision first = decide_restart(fault, {}, offers, settings);
    CHECK(first.decision.hosts_to_leave.empty());
    const RestartDecision second = decide_restart(fault, first.history, offers, settings);
    CHECK(second.decision.hosts_to_leave.empty() != suspicion);
  }
}

TEST_CASE("restart decision: restarts = 0 and spares that are used are refused with their reason") {
  ResiliencySettings settings = training_settings();
  TierOffers offers;
  limit_offers(settings, 0, offers);
  CHECK(offers.in_job.offered);
  CHECK(!offers.swap.offered);
  CHECK(offers.swap.refusal == "the job has no spares");
  settings.spares = 1;
  offers = {};
  limit_offers(settings, 0, offers);
  CHECK(offers.swap.refusal == "all spares are used");
  offers = {};
  limit_offers(settings, 1, offers);
  CHECK(offers.swap.offered);
  CHECK(offers.spares_left == 1);
  settings.restarts = 0;
  limit_offers(settings, 1, offers);
  for (const TierOffer& offer : {offers.in_job, offers.swap, offers.shrink})
    CHECK(offer.refusal == "resiliency.restarts is 0");
  CHECK(offers.new_job.offered);
}

}  // namespace longhaul
