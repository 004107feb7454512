// Which restart a fault asks for: a table of faults, then what history and refusals change, then properties that hold
// for any fault, history and offer.
#include "resiliency/taxonomy/restart_tier.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::int64_t tier_hour_ms = 3'600'000;

FaultView rank_fault(const std::string& cause, bool alive = false) {
  FaultView fault;
  fault.fault = "crash";
  fault.rank = 3;
  fault.host = "n1";
  fault.cause = cause;
  fault.all_ranks_alive = alive;
  fault.made_progress = true;
  return fault;
}

FaultView host_gone(std::vector<std::string> hosts) {
  FaultView fault = rank_fault("host gone " + hosts[0]);
  fault.fault = "node_fail";
  fault.group = FaultGroup::infrastructure;
  fault.scope = FaultScope::host;
  fault.host = hosts[0];
  fault.hosts_lost = std::move(hosts);
  return fault;
}

TierOffers plenty() {
  TierOffers offers;
  offers.spares_left = 2;
  offers.dp_replicas = 8;
  offers.dp_replicas_min = 4;
  return offers;
}

// Meets the same fault again and again, without progress after the first, and does what is decided each time.
std::vector<RestartTier> tiers_of(FaultView fault, const TierOffers& offers, bool progress, int times) {
  std::vector<RestartTier> tiers;
  TierHistory history;
  for (int i = 0; i < times; ++i) {
    fault.made_progress = i == 0 || progress;
    fault.at_ms = i * 60'000;
    const TierDecision decision = decide_tier(fault, history, offers);
    tiers.push_back(decision.tier);
    if (decision.tier == RestartTier::stop) break;
    history.push_back(past_restart(fault, decision.tier));
  }
  return tiers;
}

}  // namespace

TEST_CASE("a first fault takes the lowest tier that can cure it") {
  FaultView bad_input = rank_fault("shape");
  bad_input.group = FaultGroup::hopeless;
  bad_input.scope = FaultScope::user;
  FaultView spike = rank_fault("loss spike", true);
  spike.skippable = true;
  FaultView memory = rank_fault("cuda out of memory", true);
  memory.group = FaultGroup::memory;
  FaultView preempted = rank_fault("preempted");
  preempted.group = FaultGroup::preemption;
  preempted.scope = FaultScope::job;
  FaultView allocation = rank_fault("allocation lost");
  allocation.group = FaultGroup::infrastructure;
  allocation.scope = FaultScope::job;
  FaultView file_system = rank_fault("file system silent", true);
  file_system.scope = FaultScope::job;
  FaultView cancelled = rank_fault("cancelled");
  cancelled.group = FaultGroup::none;
  struct Case {
    const char* what;
    FaultView fault;
    RestartTier tier;
    std::vector<std::string> leave;
  };
  const Case cases[] = {
      {"bad input", bad_input, RestartTier::stop, {}},
      {"cancelled", cancelled, RestartTier::stop, {}},
      {"loss spike", spike, RestartTier::skip, {}},
      {"transient, all alive", rank_fault("nccl", true), RestartTier::in_process, {}},
      {"file system, all alive", file_system, RestartTier::in_process, {}},
      {"a rank ended", rank_fault("segv"), RestartTier::in_job, {}},
      {"memory, all alive", memory, RestartTier::in_job, {}},
      {"a host is gone", host_gone({"n1"}), RestartTier::swap, {"n1"}},
      {"two hosts are gone", host_gone({"n2", "n1"}), RestartTier::swap, {"n1", "n2"}},
      {"more hosts than spares", host_gone({"n3", "n2", "n1"}), RestartTier::shrink, {"n1", "n2", "n3"}},
      {"more hosts than replicas to spare",
       host_gone({"n1", "n2", "n3", "n4", "n5"}),
       RestartTier::new_job,
       {"n1", "n2", "n3", "n4", "n5"}},
      {"preempted", preempted, RestartTier::new_job, {}},
      {"allocation lost", allocation, RestartTier::new_job, {}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    const TierDecision decision = decide_tier(c.fault, {}, plenty());
    CAPTURE(decision.reason);
    CHECK(std::string(to_string(decision.tier)) == to_string(c.tier));
    CHECK(decision.hosts_to_leave == c.leave);
    CHECK(!decision.reason.empty());
  }
}

TEST_CASE("the same cause without progress climbs and stops at the third try") {
  using enum RestartTier;
  // The first fault ended a stretch that had got further; then three tries did not.
  CHECK(tiers_of(rank_fault("exception at step 7", true), plenty(), false, 9) ==
        std::vector<RestartTier>{in_process, in_process, in_job, stop});
  const TierDecision stopped = decide_tier(
      [] {
        FaultView fault = rank_fault("exception at step 7");
        fault.made_progress = false;
        return fault;
      }(),
      {{0, "exception at step 7", FaultScope::user, "n1", false, in_job},
       {0, "another", FaultScope::rank, "n2", false, in_job},
       {0, "exception at step 7", FaultScope::user, "n1", false, in_job}},
      plenty());
  CHECK(stopped.tier == stop);
  CHECK(stopped.reason == "the same cause 3 times without progress: exception at step 7");
}

TEST_CASE("with progress in between a cause climbs by its budgets, and old restarts are forgotten") {
  using enum RestartTier;
  CHECK(tiers_of(rank_fault("nccl", true), plenty(), true, 9) ==
        std::vector<RestartTier>{in_process, in_process, in_job, in_job, in_job, swap, swap, swap, new_job});
  FaultView fault = rank_fault("nccl", true);
  fault.at_ms = 7 * tier_hour_ms;
  const TierHistory yesterday = {past_restart(rank_fault("nccl", true), in_process),
                                 past_restart(rank_fault("nccl", true), in_process)};
  CHECK(decide_tier(fault, yesterday, plenty()).tier == in_process);
  fault.at_ms = 5 * tier_hour_ms;
  const TierDecision soon = decide_tier(fault, yesterday, plenty());
  CHECK(soon.tier == in_job);
  CHECK(soon.reason.find("not in_process (2 of 2 used for this cause)") != std::string::npos);
}

TEST_CASE("a step that can be left out is left out three times for one cause; every cause has budgets of its own") {
  using enum RestartTier;
  FaultView spike = rank_fault("loss spike", true);
  spike.skippable = true;
  CHECK(tiers_of(spike, plenty(), true, 4) == std::vector<RestartTier>{skip, skip, skip, in_process});
  const TierHistory of_another(2, past_restart(rank_fault("nccl", true), in_process));
  CHECK(decide_tier(rank_fault("nccl", true), of_another, plenty()).tier == in_job);
  CHECK(decide_tier(rank_fault("nvlink", true), of_another, plenty()).tier == in_process);
}

TEST_CASE("a lost host that is named twice needs one spare and costs its replicas once") {
  TierOffers offers = plenty();
  offers.spares_left = 1;
  const TierDecision swapped = decide_tier(host_gone({"n1", "n1"}), {}, offers);
  CHECK(swapped.tier == RestartTier::swap);
  CHECK(swapped.hosts_to_leave == std::vector<std::string>{"n1"});
  offers.spares_left = 0;
  offers.dp_replicas_lost_by_host = 4;
  CHECK(decide_tier(host_gone({"n1", "n1"}), {}, offers).tier == RestartTier::shrink);
}

TEST_CASE("a fault of the user's program stops after the in-job budget: it costs no host and no further job") {
  using enum RestartTier;
  FaultView fault = rank_fault("assert", true);
  fault.scope = FaultScope::user;
  CHECK(tiers_of(fault, plenty(), true, 9) ==
        std::vector<RestartTier>{in_process, in_process, in_job, in_job, in_job, stop});
}

TEST_CASE("ten restarts without progress stop, whatever their causes, unless hosts are to blame") {
  TierHistory history;
  for (int i = 0; i < 9; ++i)
    history.push_back({0, format("cause {}", i), FaultScope::rank, "", false, RestartTier::in_job});
  FaultView fault = rank_fault("another");
  fault.made_progress = false;
  CHECK(decide_tier(fault, history, plenty()).reason == "10 restarts without progress");
  history[4].scope = FaultScope::host;
  CHECK(decide_tier(fault, history, plenty()).tier == RestartTier::in_job);
  history[4].scope = FaultScope::rank;
  fault.scope = FaultScope::host;  // the newest one is a host's, and ends nothing
  CHECK(decide_tier(fault, history, plenty()).tier == RestartTier::in_job);
  fault.scope = FaultScope::rank;
  history[4].made_progress = true;
  CHECK(decide_tier(fault, history, plenty()).tier == RestartTier::in_job);
}

TEST_CASE("a host that is accused for sure is left at the first fault while spares last, and kept without") {
  FaultView fault = rank_fault("silent_corruption n1", true);
  fault.fault = "silent_corruption";
  fault.group = FaultGroup::infrastructure;
  fault.scope = FaultScope::gpu;
  CHECK(decide_tier(fault, {}, plenty()).tier == RestartTier::in_process);
  fault.accuses = Accusation::sure;
  const TierDecision left = decide_tier(fault, {}, plenty());
  CHECK(left.tier == RestartTier::swap);
  CHECK(left.hosts_to_leave == std::vector<std::string>{"n1"});
  CHECK(left.reason == "silent_corruption of scope gpu; n1 is left: silent_corruption accuses it for sure");
  TierOffers none = plenty();
  none.spares_left = 0;
  CHECK(decide_tier(fault, {}, none).tier == RestartTier::in_process);
  fault.host.clear();
  CHECK(decide_tier(fault, {}, plenty()).tier == RestartTier::in_process);
}

TEST_CASE("a lost host and a lemon are left together while spares last") {
  FaultView fault = host_gone({"n2"});
  fault.host = "n1";
  fault.accuses = Accusation::doubtful;
  const TierHistory once = {past_restart(fault, RestartTier::in_job)};
  CHECK(decide_tier(fault, once, plenty()).hosts_to_leave == std::vector<std::string>{"n1", "n2"});
  TierOffers one = plenty();
  one.spares_left = 1;
  CHECK(decide_tier(fault, once, one).hosts_to_leave == std::vector<std::string>{"n2"});
}

TEST_CASE("what is refused is passed over with its reason; where nothing is left it stops with all of them") {
  TierOffers offers = plenty();
  offers.in_process = {false, "the launcher ends every rank when one ends"};
  const TierDecision decision = decide_tier(rank_fault("nccl", true), {}, offers);
  CHECK(decision.tier == RestartTier::in_job);
  CHECK(decision.reason == "crash of scope rank: not in_process (the launcher ends every rank when one ends)");
  offers.spares_left = 0;
  offers.shrink = {false, "the layout has no replicas"};
  offers.new_job = {false, "a local run has no scheduler"};
  const TierDecision stopped = decide_tier(host_gone({"n1"}), {}, offers);
  CHECK(stopped.tier == RestartTier::stop);
  for (const char* part : {"1 host to leave, 0 spare", "the layout has no replicas", "a local run has no scheduler"})
    CHECK(stopped.reason.find(part) != std::string::npos);
}

TEST_CASE("replicas that one host takes part in count when a training shrinks") {
  TierOffers offers = plenty();
  offers.spares_left = 0;
  offers.dp_replicas_lost_by_host = 4;
  CHECK(decide_tier(host_gone({"n1"}), {}, offers).tier == RestartTier::shrink);
  offers.dp_replicas_lost_by_host = 5;
  CHECK(decide_tier(host_gone({"n1"}), {}, offers).tier == RestartTier::new_job);
}

TEST_CASE("memory that ran out is tried once more in new processes, then on another host, never the same way again") {
  using enum RestartTier;
  FaultView fault = rank_fault("cuda out of memory", true);
  fault.group = FaultGroup::memory;
  CHECK(tiers_of(fault, plenty(), true, 3) == std::vector<RestartTier>{in_job, swap, swap});
  fault.scope = FaultScope::user;
  CHECK(tiers_of(fault, plenty(), true, 3) == std::vector<RestartTier>{in_job, stop});
}

TEST_CASE("properties of any decision") {
  for (unsigned seed = 1; seed <= 4000; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    FaultView fault = rank_fault(format("c{}", below(3)), below(2) == 0);
    fault.group = static_cast<FaultGroup>(below(static_cast<int>(FaultGroup::memory) + 1));
    fault.scope = static_cast<FaultScope>(below(6));
    fault.host = below(4) == 0 ? "" : format("n{}", below(3));
    for (int i = below(4); i > 0; --i) fault.hosts_lost.push_back(format("n{}", below(3)));
    fault.skippable = below(8) == 0;
    fault.made_progress = below(2) == 0;
    fault.accuses = static_cast<Accusation>(below(3));
    fault.at_ms = 30 * tier_hour_ms;
    TierHistory history;
    for (int i = below(12); i > 0; --i)
      history.push_back({below(30) * tier_hour_ms, format("c{}", below(3)), static_cast<FaultScope>(below(6)),
                         format("n{}", below(3)), below(2) == 0, static_cast<RestartTier>(below(6)),
                         format("class {}", below(2)), static_cast<Accusation>(below(3)), below(4) == 0});
    TierOffers offers = plenty();
    offers.spares_left = below(4);
    offers.dp_replicas = 1 + below(6);
    for (TierOffer* offer :
         {&offers.skip, &offers.in_process, &offers.in_job, &offers.swap, &offers.shrink, &offers.new_job})
      *offer = {below(4) != 0, "refused"};
    const TierDecision decision = decide_tier(fault, history, offers);
    CAPTURE(decision.reason);
    const std::set<std::string> leave(decision.hosts_to_leave.begin(), decision.hosts_to_leave.end());
    CHECK(!decision.reason.empty());
    CHECK(offers.of(decision.tier).offered);
    CHECK(leave.size() == decision.hosts_to_leave.size());
    if (decision.tier == RestartTier::stop) {
      CHECK(leave.empty());
      continue;
    }
    for (const std::string& lost : fault.hosts_lost) CHECK(leave.contains(lost));
    if (decision.tier < RestartTier::swap) CHECK(leave.empty());
    if (decision.tier == RestartTier::swap) {
      CHECK(!leave.empty());
      CHECK(static_cast<int>(leave.size()) <= offers.spares_left);
    }
    if (decision.tier == RestartTier::shrink)
      CHECK(offers.dp_replicas - static_cast<int>(leave.size()) >= offers.dp_replicas_min);
    if (fault.scope == FaultScope::user && fault.hosts_lost.empty() && fault.group == FaultGroup::application)
      CHECK(decision.tier <= RestartTier::in_job);
  }
}

}  // namespace longhaul
