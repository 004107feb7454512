// When a host has failed once too often: by the rule alone, then as decisions with spares, progress and without either.
#include "resiliency/taxonomy/lemon_host.h"

#include <doctest/doctest.h>

#include "base/text/text.h"
#include "resiliency/taxonomy/fault_table.h"

namespace longhaul {
namespace {

constexpr std::int64_t lemon_minute_ms = 60'000, lemon_day_ms = 24 * 60 * lemon_minute_ms;

// As a lead sees it: class, scope and accusation of the table.
FaultView fault_on(const std::string& host, FaultClass fault, std::int64_t at_ms) {
  const FaultInfo& info = info_of(fault);
  FaultView view;
  view.fault = info.name;
  view.group = info.group;
  view.scope = info.scope;
  view.accuses = info.accuses;
  view.rank = 2;
  view.host = host;
  view.cause = format("the cause of {}", info.name);
  view.made_progress = true;
  view.at_ms = at_ms;
  return view;
}

TierOffers with_spares(int spares) {
  TierOffers offers;
  offers.spares_left = spares;
  offers.shrink = {false, "not here"};
  if (spares == 0) offers.swap = {false, "all spares are used"};
  return offers;
}

// Faults one after the other, as a lead meets them: after progress what came before is forgiven.
struct LemonStory {
  TierHistory history;
  TierOffers offers = with_spares(3);
  TierDecision meet(const FaultView& fault) {
    if (fault.made_progress) forgive(history, fault.at_ms);
    const TierDecision decision = decide_tier(fault, history, offers);
    history.push_back(past_restart(fault, decision.tier));
    return decision;
  }
};

using F = FaultClass;
const std::vector<std::string> n2_alone = {"n2"};

}  // namespace

TEST_CASE("a host is left at its second fault, whatever it looked like and though training went on in between") {
  const F kinds[] = {F::crash,
                     F::killed,
                     F::frozen,
                     F::hang,
                     F::stuck_collective,
                     F::nccl_error,
                     F::gpu_program,
                     F::gpu_memory_contained};
  for (const F first : kinds)
    for (const F second : kinds) {
      CAPTURE(to_string(first));
      CAPTURE(to_string(second));
      LemonStory story;
      CHECK(story.meet(fault_on("n2", first, 0)).hosts_to_leave.empty());
      const TierDecision left = story.meet(fault_on("n2", second, 180 * lemon_minute_ms));
      CHECK(left.tier == RestartTier::swap);
      CHECK(left.hosts_to_leave == n2_alone);
      CHECK(left.reason.find(format("n2 is left after its second fault within {}: {}, {}", human_duration(180 * 60),
                                    to_string(first), to_string(second))) != std::string::npos);
    }
}

TEST_CASE("the first faults of several hosts leave none") {
  LemonStory story;
  for (const char* host : {"n1", "n2", "n3", "n4"})
    CHECK(story.meet(fault_on(host, F::killed, 0)).tier == RestartTier::in_job);
}

TEST_CASE("what a program says of itself, its data or its files costs no host, however often") {
  for (const FaultInfo& info : fault_table) {
    if (info.accuses != Accusation::never || info.group != FaultGroup::application) continue;
    CAPTURE(info.name);
    LemonStory story;
    for (int i = 0; i < 12; ++i) {
      const TierDecision decision = story.meet(fault_on("n2", info.fault, i * lemon_minute_ms));
      if (info.tier < RestartTier::swap && info.scope != FaultScope::user) CHECK(decision.hosts_to_leave.empty());
      if (info.scope == FaultScope::user) CHECK(decision.tier <= RestartTier::in_job);
    }
  }
  // Nor does it add to what a host did before.
  LemonStory story;
  story.meet(fault_on("n2", F::killed, 0));
  CHECK(story.meet(fault_on("n2", F::exception, 1)).hosts_to_leave.empty());
  CHECK(story.meet(fault_on("n2", F::loss_nan, 2)).hosts_to_leave.empty());
  CHECK(story.meet(fault_on("n2", F::checkpoint_unreadable, 3)).hosts_to_leave.empty());
  CHECK(story.meet(fault_on("n2", F::disk_full, 4)).hosts_to_leave.empty());
}

TEST_CASE("where another host has had as many faults of the kind, the host is not what they have in common") {
  LemonStory story;
  story.offers.swap = {false, "not yet"};
  story.meet(fault_on("n1", F::crash, 0));
  story.meet(fault_on("n1", F::crash, 1));
  story.meet(fault_on("n2", F::crash, 2));
  story.offers = with_spares(3);
  const TierDecision stays = story.meet(fault_on("n2", F::crash, 3));
  CHECK(stays.tier == RestartTier::in_job);
  CHECK(stays.reason == "crash of scope rank; n2 stays: n1 has had as many faults of this kind");
  // The host that is ahead is a lemon all the same.
  CHECK(story.meet(fault_on("n2", F::crash, 4)).hosts_to_leave == n2_alone);

  // Single faults on many hosts do not excuse the one with two, and other kinds elsewhere say nothing.
  LemonStory many;
  for (int host = 10; host < 60; ++host) many.meet(fault_on(format("n{}", host), F::killed, host));
  many.meet(fault_on("n3", F::disk_full, 70));
  many.meet(fault_on("n2", F::killed, 80));
  CHECK(many.meet(fault_on("n2", F::killed, 90)).hosts_to_leave == n2_alone);

  // As often elsewhere, but of another kind: no excuse.
  LemonStory kinds;
  kinds.offers.swap = {false, "not yet"};
  for (const char* host : {"n1", "n2"}) kinds.meet(fault_on(host, host == n2_alone[0] ? F::killed : F::hang, 0));
  kinds.meet(fault_on("n1", F::hang, 1));
  kinds.offers = with_spares(3);
  CHECK(kinds.meet(fault_on("n2", F::killed, 2)).hosts_to_leave == n2_alone);

  // What is surely the host's is so whatever other hosts had.
  const TierHistory links = {past_restart(fault_on("n1", F::nic_down, 0), RestartTier::in_job),
                             past_restart(fault_on("n1", F::nic_down, 1), RestartTier::in_job),
                             past_restart(fault_on("n2", F::nic_down, 2), RestartTier::in_job)};
  CHECK(judge_host(fault_on("n2", F::nic_down, 3), links).lemon);
}

TEST_CASE("faults farther apart than a week are two accidents") {
  for (const std::int64_t apart_ms : {7 * lemon_day_ms - 1, 7 * lemon_day_ms}) {
    LemonStory story;
    story.meet(fault_on("n2", F::killed, 1000));
    const bool left = !story.meet(fault_on("n2", F::killed, 1000 + apart_ms)).hosts_to_leave.empty();
    CHECK(left == (apart_ms < 7 * lemon_day_ms));
  }
  TierBudgets off;
  off.lemon_faults = 1 << 30;
  const TierHistory twice(2, past_restart(fault_on("n2", F::killed, 0), RestartTier::in_job));
  CHECK(!judge_host(fault_on("n2", F::killed, 1), twice, off).lemon);
}

TEST_CASE("without a spare a lemon stays, and the decision says so") {
  LemonStory story;
  story.offers = with_spares(0);
  story.meet(fault_on("n2", F::killed, 0));
  const TierDecision stays = story.meet(fault_on("n2", F::hang, 60'000));
  CHECK(stays.tier == RestartTier::in_job);
  CHECK(stays.hosts_to_leave.empty());
  CHECK(
      stays.reason ==
      format("hang of scope rank; n2 stays in spite of its second fault within {}: killed, hang (all spares are used)",
             human_duration(60)));
  for (int i = 2; i < 9; ++i) story.meet(fault_on("n2", F::killed, i * 60'000));
  const TierDecision tenth = story.meet(fault_on("n2", F::killed, 9 * 60'000));
  CHECK(tenth.reason.find("its 10th fault") != std::string::npos);
  CHECK(tenth.reason.find(": ..., killed, killed, killed, killed") != std::string::npos);
}

TEST_CASE("a lemon is left before the same cause without progress stops the job") {
  LemonStory story;
  FaultView fault = fault_on("n2", F::killed, 0);
  story.meet(fault);
  fault.made_progress = false;
  fault.at_ms = 1;
  CHECK(story.meet(fault).tier == RestartTier::swap);
}

TEST_CASE("a new job leaves lemons out, and a used-up budget of swaps asks for no new job where the host still works") {
  FaultView preempted = fault_on("n2", F::killed, 10);
  preempted.group = FaultGroup::preemption;
  const TierHistory once = {past_restart(fault_on("n2", F::hang, 0), RestartTier::in_job)};
  CHECK(decide_tier(preempted, once, with_spares(1)).hosts_to_leave == n2_alone);
  TierHistory swaps = once;
  for (int i = 0; i < 3; ++i)
    swaps.push_back(past_restart(fault_on(format("n{}", 5 + i), F::killed, 1), RestartTier::swap));
  CHECK(decide_tier(fault_on("n2", F::killed, 10), swaps, with_spares(1)).tier == RestartTier::in_job);
}

TEST_CASE("progress forgives what a program tried, keeps what speaks against hosts, and forgets both in time") {
  TierHistory history = {past_restart(fault_on("n1", F::exception, 0), RestartTier::in_job),
                         past_restart(fault_on("n2", F::killed, 0), RestartTier::in_job),
                         past_restart(fault_on("n3", F::nic_down, 0), RestartTier::swap)};
  forgive(history, 1000);
  REQUIRE(history.size() == 3);  // those of the last two hours count for the floor of goodput
  CHECK(history[0].forgiven);
  forgive(history, goodput_window_ms);
  REQUIRE(history.size() == 2);
  CHECK(history[0].host == "n2");
  CHECK(history[0].forgiven);
  CHECK(!history[1].forgiven);  // the machine's own: it never was the program's to pay for
  // No budget is used up by it: three tries of the same cause in the job are granted again.
  FaultView again = fault_on("n9", F::killed, 0);
  again.made_progress = false;
  TierHistory tries(3, past_restart(again, RestartTier::in_job));
  again.host = "n2", again.at_ms = 2000;
  CHECK(decide_tier(again, tries, with_spares(0)).tier == RestartTier::stop);
  forgive(tries, 1000);
  CHECK(decide_tier(again, tries, with_spares(0)).tier == RestartTier::in_job);
  forgive(history, 8 * lemon_day_ms);
  REQUIRE(history.size() == 1);
  CHECK(history[0].host == "n3");
}

}  // namespace longhaul
