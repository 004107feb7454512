// Submissions that are refused for now, and jobs that wait for what does not come: what is said, how often, and when it
// is given up.
#include "orchestrator/decide/held_up.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "base/files/files.h"
#include "orchestrator/controller/follower.h"
#include "tests/unit/orchestrator/controller/cluster_rig.h"

namespace longhaul {
namespace {

constexpr std::int64_t day_ms = 86'400'000;

int count_of(const ClusterRig& rig, FactKind kind) {
  int count = 0;
  for (const Fact& fact : rig.decided) count += fact.kind == kind ? 1 : 0;
  return count;
}

ClusterRig waiting_job(const std::string& reason, const std::string& advice) {
  ClusterRig rig;
  rig.stage("p");
  rig.round();
  JobInfo& job = rig.job("p");
  job.state = JobState::queued;
  job.reason = reason;
  job.advice = advice;
  return rig;
}

}  // namespace

TEST_CASE(
    "refused for now: each kind is said once, and only what is not known to pass is given up after the patience") {
  for (const Refusal refusal : {Refusal::busy, Refusal::limit, Refusal::unknown}) {
    CAPTURE(to_string(refusal));
    CHECK(act_on_refusal(refusal, {}, 1'000, day_ms) == RefusalAct::say);
    const HeldUp said{to_string(refusal), "message", "", 1'000};
    CHECK(act_on_refusal(refusal, said, 1'000 + day_ms - 1, day_ms) == RefusalAct::nothing);
    const RefusalAct late = act_on_refusal(refusal, said, 1'000 + day_ms, day_ms);
    CHECK(late == (refusal == Refusal::unknown ? RefusalAct::fail : RefusalAct::nothing));
    const HeldUp other{"queue", "message", "", 1'000};
    CHECK(act_on_refusal(refusal, other, 2'000, day_ms) == RefusalAct::say);
  }
  // A limit that has become an unknown name is given its time from the first refusal on.
  CHECK(act_on_refusal(Refusal::unknown, {"limit", "w", "", 1'000}, 1'000 + day_ms, day_ms) == RefusalAct::fail);
  for (const Refusal refusal : {Refusal::silence, Refusal::never})
    CHECK(act_on_refusal(refusal, {"unknown", "w", "", 1'000}, 1'000 + day_ms, day_ms) == RefusalAct::nothing);
  CHECK(cause_of_long_refusal({"unknown", "w", "", 1'000}, "lua: no", 1'000 + day_ms).find("lua: no") !=
        std::string::npos);
}

TEST_CASE("refused for now: the ledger remembers the first time and the newest message, until the job is accepted") {
  ClusterRig rig;
  rig.stage("p");
  rig.round(false);
  Fact fact{FactKind::held_up, "p", 1, Value::make_table(), 5'000};
  fact.fields.set("by", "limit");
  fact.fields.set("cause", "QOSMaxSubmitJobPerUserLimit");
  rig.ledger.apply(fact);
  fact.wall_ms = 9'000;
  fact.fields.set("by", "unknown");
  rig.ledger.apply(fact);
  CHECK(rig.of("p").newest()->held_up.since_ms == 5'000);
  CHECK(rig.of("p").newest()->held_up.by == "unknown");
  CHECK(rig.ledger.refused.empty());
  rig.write_fact(FactKind::submitted, "p", 1, "job", "7");
  CHECK(rig.of("p").newest()->held_up.by.empty());
}

TEST_CASE("a job that waits for what does not come by itself is said once for each reason") {
  ClusterRig rig = waiting_job("QOSMaxNodePerJobLimit", "ask for less");
  rig.round();
  CHECK(count_of(rig, FactKind::held_up) == 1);
  CHECK(rig.fact(FactKind::held_up).text("cause") == "QOSMaxNodePerJobLimit");
  CHECK(rig.fact(FactKind::held_up).text("advice") == "ask for less");
  for (int i = 0; i < 5; ++i) {
    rig.round();
    CHECK(count_of(rig, FactKind::held_up) == 0);
  }
  rig.job("p").reason = "JobHeldAdmin";
  rig.round();
  CHECK(count_of(rig, FactKind::held_up) == 1);
  rig.run("p");
  rig.round();
  CHECK(rig.of("p").newest()->held_up.by.empty());
}

TEST_CASE("a job that waits for nodes is held up by nothing") {
  ClusterRig rig = waiting_job("Resources", "");
  rig.round();
  CHECK(count_of(rig, FactKind::held_up) == 0);
}

TEST_CASE("a job that the scheduler holds for good gives its place to another one") {
  ClusterRig rig = waiting_job("JobHoldMaxRequeue", "it was queued again too often");
  rig.job("p").given_up = rig.job("p").held = true;
  CHECK(rig.round().find("cancel_job p#1, retry p#1") != std::string::npos);
  CHECK(rig.fact(FactKind::retry).text("fault") == "launch_failed");
  CHECK(rig.fact(FactKind::retry).text("cause").find("JobHoldMaxRequeue") != std::string::npos);
  rig.seen.jobs.clear();
  rig.round();
  CHECK(rig.of("p").newest()->number == 2);
}

TEST_CASE("follower: behind the costly jobs, moved with them, and gone with the last of them") {
  using Act = FollowerPlan::Act;
  const LiveJob large{"7", 8}, small{"8", 4}, other{"9", 1000};
  CHECK(is_costly_to_hold(5));
  CHECK_FALSE(is_costly_to_hold(4));

  FollowerPlan plan = plan_follower({}, {large, small}, "", false);
  CHECK(plan.act == Act::submit);
  CHECK(plan.behind == std::vector<std::string>{"7"});
  CHECK(plan_follower({"20", {"7"}}, {large, small}, "", false).act == Act::keep);
  plan = plan_follower({"20", {"7"}}, {other, large}, "", false);
  CHECK(plan.act == Act::move);
  CHECK(plan.behind == std::vector<std::string>{"7", "9"});
  CHECK(follower_dependency(plan.behind) == "afterany:7?afterany:9");
  CHECK(plan_follower({"20", {"7"}}, {small}, "", false).act == Act::end);
  CHECK(plan_follower({}, {small}, "", false).act == Act::keep);
}

TEST_CASE("follower: where something is left open there is one behind whoever leaves it") {
  using Act = FollowerPlan::Act;
  FollowerPlan plan = plan_follower({}, {}, "7", true);
  CHECK(plan.act == Act::submit);
  CHECK(plan.behind == std::vector<std::string>{"7"});
  CHECK(plan_follower({"20", {"7"}}, {}, "7", true).act == Act::keep);
  CHECK(plan_follower({"20", {"5"}}, {}, "7", true).act == Act::move);
  // The follower itself, which is about to end.
  plan = plan_follower({"20", {"7"}}, {}, "20", true);
  CHECK(plan.act == Act::submit);
  CHECK(plan.behind == std::vector<std::string>{"20"});
  CHECK(plan_follower({"20", {"7"}}, {{"8", 64}}, "20", false).act == Act::submit);
  CHECK(plan_follower({"20", {"7"}}, {}, "20", false).act == Act::keep);
  // From outside of any job it may start at once.
  plan = plan_follower({}, {}, "", true);
  CHECK(plan.act == Act::submit);
  CHECK(plan.behind.empty());
}

TEST_CASE("follower: what is written down is read again, and nothing is there without a file") {
  const std::string folder = format("/tmp/longhaul-follower-{}", ::getpid());
  CHECK(read_follower(folder).job.empty());
  REQUIRE(write_follower(folder, {"20", {"7", "8_1"}}).ok());
  CHECK(read_follower(folder).job == "20");
  CHECK(read_follower(folder).behind == std::vector<std::string>{"7", "8_1"});
  REQUIRE(write_follower(folder, {}).ok());
  CHECK(read_follower(folder).job.empty());
  (void)remove_tree(folder).ok();
}

}  // namespace longhaul
