// A training that gets a step further with every restart, and spends its time on restarts.
#include "resiliency/taxonomy/goodput_floor.h"

#include <doctest/doctest.h>

#include <optional>

namespace longhaul {
namespace {

constexpr std::int64_t floor_minute_ms = 60'000;

FaultView fault_of_one_host() {
  FaultView fault;
  fault.fault = "crash";
  fault.host = "n1", fault.rank = 3;
  fault.cause = "crash in step";
  fault.accuses = Accusation::doubtful;
  fault.made_progress = true;  // a copy on the nodes after every step
  return fault;
}

TierOffers without_spares(bool shrink) {
  TierOffers offers;
  offers.swap = {false, "the job has no spares"};
  offers.shrink.offered = shrink;
  offers.dp_replicas = 8, offers.dp_replicas_min = 4;
  return offers;
}

struct Storm {
  int restarts = 0;  // before the decision
  TierDecision decision;
};

// A fault every three steps: so long they train, and so long a restart takes. Until something else is decided than
// another launch on the same hosts, or for a day.
std::optional<Storm> storm(FaultView fault, const TierOffers& offers, double train_s, double restart_s,
                           const TierBudgets& budgets = {}) {
  TierHistory history;
  GoodputWindow window;
  std::int64_t now = 0, training = 0;
  window.note(now, training);
  for (int faults = 0; now < 24 * 60 * floor_minute_ms; ++faults) {
    now += static_cast<std::int64_t>(1e3 * train_s), training += static_cast<std::int64_t>(1e3 * train_s);
    window.note(now, training);
    fault.at_ms = now, fault.recent = window.recent();
    TierBudgets many = budgets;  // as if every checkpoint forgave
    many.in_job = 1 << 20;
    TierDecision decision = decide_tier(fault, history, offers, many);
    if (decision.tier != RestartTier::in_job) return Storm{faults, std::move(decision)};
    history.push_back(past_restart(fault, decision.tier));
    now += static_cast<std::int64_t>(1e3 * restart_s);
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("floor of goodput: a host with a fault every three steps is left, though each restart gets further") {
  const auto shrunk = storm(fault_of_one_host(), without_spares(true), 30, 120);
  REQUIRE(shrunk);
  CHECK(shrunk->decision.tier == RestartTier::shrink);
  CHECK(shrunk->decision.hosts_to_leave == std::vector<std::string>{"n1"});
  CHECK(shrunk->decision.below_floor);
  CHECK(shrunk->restarts == 12);  // half an hour of them
  CHECK(shrunk->decision.reason.find("% of the last") != std::string::npos);
  CHECK(shrunk->decision.reason.find("of n1") != std::string::npos);

  const auto left = storm(fault_of_one_host(), without_spares(false), 30, 120);
  REQUIRE(left);
  CHECK(left->decision.tier == RestartTier::new_job);
  CHECK(left->decision.hosts_to_leave == std::vector<std::string>{"n1"});
}

TEST_CASE("floor of goodput: above it nothing changes, nor where it is switched off") {
  CHECK(!storm(fault_of_one_host(), without_spares(true), 300, 120));
  CHECK(!storm(fault_of_one_host(), without_spares(true), 600, 1'200));  // a third, with a fault every half hour
  TierBudgets none;
  none.floor_share = 0;
  CHECK(!storm(fault_of_one_host(), without_spares(true), 30, 120, none));
  // Long restarts, and few of them: 4 in two hours.
  CHECK(!storm(fault_of_one_host(), without_spares(true), 300, 1'700));
}

TEST_CASE("floor of goodput: a cause without a host asks for another job, a user's own program for nothing") {
  FaultView anywhere = fault_of_one_host();
  anywhere.host.clear(), anywhere.accuses = Accusation::never;
  const auto moved = storm(anywhere, without_spares(true), 30, 120);
  REQUIRE(moved);
  CHECK(moved->decision.tier == RestartTier::new_job);
  CHECK(moved->decision.hosts_to_leave.empty());
  FaultView user = fault_of_one_host();
  user.scope = FaultScope::user, user.accuses = Accusation::never;
  CHECK(!storm(user, without_spares(true), 30, 120));
}

TEST_CASE("goodput window: two hours at most, of a younger training all") {
  GoodputWindow window;
  CHECK(window.recent().over_ms == 0);
  window.note(0, 0);
  window.note(10 * floor_minute_ms, 10 * floor_minute_ms);
  CHECK(window.recent().over_ms == 10 * floor_minute_ms);
  CHECK(window.recent().training == doctest::Approx(1));
  for (int minute = 11; minute <= 600; ++minute) window.note(minute * floor_minute_ms, 10 * floor_minute_ms);
  CHECK(window.recent().training == doctest::Approx(0));
  CHECK(window.recent().over_ms >= goodput_window_ms);
  CHECK(window.recent().over_ms <= goodput_window_ms + 6 * floor_minute_ms);
  CHECK(window.notes().size() <= 26);
}

}  // namespace longhaul
