// A stage that is longer than one job may be: when the next one is queued, takes over, and is taken back.
#include "resiliency/taxonomy/fault_class.h"
#include "tests/unit/orchestrator/controller/cluster_rig.h"

namespace longhaul {
namespace {

constexpr std::int64_t chain_hour_s = 3600;  // the wall time of one job of the rig's chains

// A chain whose first job runs, and its next one is queued.
ClusterRig running_chain(double time_limit_s = 100 * chain_hour_s) {
  ClusterRig rig;
  rig.chain("p", time_limit_s);
  REQUIRE(rig.round() == "ready p, submit p#1");
  rig.run("p");
  REQUIRE(rig.round() == "started p#1, submit_next p#2");
  return rig;
}

RequestSeen chain_request(const std::string& what) {
  static int number = 0;
  return {format("{:03}", ++number), what};
}

}  // namespace

TEST_CASE("where a stage surely needs another job, it is queued as soon as the first runs, once, behind it") {
  ClusterRig rig = running_chain();
  const Fact& fact = rig.fact(FactKind::submit_next);
  CHECK(fact.text("key") == submission_key("run", "p", 2));
  CHECK(fact.fields.get_integer("after") == 1);
  CHECK(rig.of("p").successor->after == 1);
  CHECK(rig.of("p").newest()->number == 1);  // it is not the stage's job yet
  CHECK(rig.round() == "");
  CHECK(pending_acts(rig.ledger).submit.empty());
}

TEST_CASE("where a stage may end within one job, the next is queued when half of the wall time is over") {
  ClusterRig rig;
  rig.chain("p", chain_hour_s);
  rig.round();
  rig.run("p");
  CHECK(rig.round() == "started p#1");
  rig.pass_s(chain_hour_s / 2 - 121);
  CHECK(rig.round() == "");
  CHECK(rig.round() == "submit_next p#2");
}

TEST_CASE("a stage of one job gets no successor, and neither does one that only waits") {
  ClusterRig rig;
  rig.chain("p", 100 * chain_hour_s);
  rig.stage("one");
  rig.rules.stages[1].wall_s = chain_hour_s;
  CHECK(rig.round() == "ready p, ready one, submit p#1, submit one#1");
  rig.job("p").state = JobState::queued;
  rig.run("one");
  CHECK(rig.round() == "started one#1");
  rig.pass_s(chain_hour_s);
  CHECK(rig.round() == "");
}

TEST_CASE("when a job's wall time is over its successor goes on as the next attempt, as often as the stage needs") {
  ClusterRig rig = running_chain(3 * chain_hour_s);
  rig.pass_s(chain_hour_s);
  rig.end_at_wall_time("p", 100);
  CHECK(rig.round() == "go_on p#1");
  CHECK(rig.of("p").state == StageState::submitted);
  CHECK(rig.of("p").newest()->number == 2);
  CHECK(!rig.of("p").newest()->job.empty());  // queued long ago
  CHECK(!rig.of("p").successor);
  CHECK(rig.of("p").attempts[0].fault == "wall_time");
  CHECK(rig.of("p").attempts[0].made_progress);
  CHECK(rig.of("p").cause.empty());
  rig.run("p");
  CHECK(rig.round() == "started p#2, submit_next p#3");
  rig.pass_s(chain_hour_s);
  rig.end_at_wall_time("p", 200);
  CHECK(rig.round() == "go_on p#2");
  rig.run("p");
  CHECK(rig.round() == "started p#3");  // its three hours are used up with this one
  rig.succeed("p");
  CHECK(rig.round() == "succeeded p#3, run_ended");
  CHECK(rig.ledger.state == RunState::succeeded);
}

TEST_CASE("without a successor, a job whose wall time is over is followed by a new submission") {
  ClusterRig rig;
  rig.chain("p", chain_hour_s);
  rig.round();
  rig.run("p");
  rig.round();
  rig.end_at_wall_time("p", 7);
  CHECK(rig.round() == "retry p#1, submit p#2");
  CHECK(rig.of("p").newest()->after == 0);

  ClusterRig refused;
  refused.chain("p", 100 * chain_hour_s);
  refused.round();
  refused.run("p");
  refused.round(false);
  refused.write_fact(FactKind::refused, "p", 2, "cause", "no such QOS");
  refused.end_at_wall_time("p", 7);
  CHECK(refused.round() == "retry p#1, submit p#3");
}

TEST_CASE("a successor that has no use any more is cancelled, and the run ends only then") {
  SUBCASE("its stage succeeded") {
    ClusterRig rig = running_chain();
    rig.succeed("p");
    CHECK(rig.round() == "succeeded p#1, cancel_job p#2");
    CHECK(rig.of("p").successor->cancel_sent);
    CHECK(rig.round() == "run_ended");
    CHECK(rig.ledger.state == RunState::succeeded);
  }
  SUBCASE("its stage failed") {
    ClusterRig rig = running_chain();
    rig.end("p", "failed", "bad data").record->exit_code = engine_exit_invalid_input;
    CHECK(rig.round() == "failed p#1, cancel_job p#2");
    CHECK(rig.round() == "run_ended");
  }
  SUBCASE("the run is cancelled") {
    ClusterRig rig = running_chain();
    rig.seen.requests = {chain_request("cancel")};
    CHECK(rig.round() == "request, cancel_job p#1, cancel_job p#2");
    rig.end("p", "cancelled", "asked to stop");
    CHECK(rig.round() == "cancelled p#1, run_ended");
    CHECK(rig.ledger.state == RunState::cancelled);
  }
  SUBCASE("two jobs in a row got no further") {
    ClusterRig rig = running_chain();
    rig.end_at_wall_time("p", -1);
    CHECK(rig.round() == "go_on p#1");
    rig.run("p");
    CHECK(rig.round() == "started p#2, submit_next p#3");
    rig.end_at_wall_time("p", -1);
    CHECK(rig.round() == "failed p#2, cancel_job p#3");
  }
}

TEST_CASE("a successor whose submission has no answer is looked for when its stage has ended, and never given up") {
  for (const bool was_submitted : {false, true}) {
    CAPTURE(was_submitted);
    ClusterRig rig;
    rig.chain("p", 100 * chain_hour_s);
    rig.round();
    rig.run("p");
    CHECK(rig.round(false) == "started p#1, submit_next p#2");
    rig.succeed("p");
    CHECK(rig.round(false) == "succeeded p#1, cancel_job p#2");
    for (int i = 0; i < 3; ++i) {
      CHECK(rig.round(false) == "");  // it may appear in the queue yet: the run has not ended
      const PendingActs acts = pending_acts(rig.ledger);
      REQUIRE(acts.submit.size() == 1);
      CHECK(acts.submit[0].attempt->number == 2);
      CHECK(acts.submit[0].attempt->cancel_wanted);
    }
    if (was_submitted) {
      rig.write_fact(FactKind::submitted, "p", 2, "job", "77");
      CHECK(pending_acts(rig.ledger).submit.empty());
      REQUIRE(pending_acts(rig.ledger).cancel.size() == 1);
      CHECK(pending_acts(rig.ledger).cancel[0].attempt->job == "77");
      rig.write_fact(FactKind::cancel_sent, "p", 2);
    } else {
      rig.write_fact(FactKind::refused, "p", 2, "cause", "cancelled before it was submitted");
    }
    CHECK(rig.round() == "run_ended");
    CHECK(rig.of("p").state == StageState::succeeded);
    CHECK(rig.ledger.state == RunState::succeeded);
  }
}

TEST_CASE("a resume waits for what is still to be cancelled, and then uses no number of an attempt again") {
  ClusterRig rig;
  rig.chain("p", 100 * chain_hour_s);
  rig.round();
  rig.run("p");
  rig.round(false);
  rig.end("p", "failed", "bad data").record->exit_code = engine_exit_invalid_input;
  CHECK(rig.round(false) == "failed p#1, cancel_job p#2");
  rig.seen.requests = {chain_request("resume")};
  CHECK(rig.round(false) == "request");
  CHECK_FALSE(rig.fact(FactKind::request).fields.get_bool("accepted"));
  rig.write_fact(FactKind::submitted, "p", 2, "job", "77");
  rig.write_fact(FactKind::cancel_sent, "p", 2);
  rig.seen.requests = {chain_request("resume")};
  CHECK(rig.round() == "request, reset p");
  // The cancelled successor was number 2: Slurm still shows its key as cancelled.
  CHECK(rig.round() == "ready p, submit p#3");
  CHECK(rig.of("p").newest()->key == submission_key("run", "p", 3));
}

TEST_CASE("a resume does not try again what fails with it while its successor is still in the queue") {
  ClusterRig rig;
  rig.chain("p", 100 * chain_hour_s);
  rig.round();
  rig.run("p");
  rig.round(false);
  rig.end("p", "failed", "bad data").record->exit_code = engine_exit_invalid_input;
  rig.seen.requests = {chain_request("resume")};
  CHECK(rig.round(false) == "request, failed p#1, cancel_job p#2");
}

TEST_CASE("no successor is queued beyond the site's limit, the budget or a cancellation") {
  const auto first_job_runs = [](auto&& change) {
    ClusterRig rig;
    rig.chain("p", 100 * chain_hour_s);
    rig.round();
    rig.run("p");
    change(rig);
    return rig.round();
  };
  CHECK(first_job_runs([](ClusterRig&) {}) == "started p#1, submit_next p#2");
  CHECK(first_job_runs([](ClusterRig& rig) { rig.rules.submitted_max = 1; }) == "started p#1");
  CHECK(first_job_runs([](ClusterRig& rig) { rig.plan.budget_node_hours = 1e-6; }) == "started p#1");
  CHECK(first_job_runs([](ClusterRig& rig) { rig.seen.requests = {chain_request("cancel")}; }) ==
        "request, started p#1, cancel_job p#1");
}

TEST_CASE("a job that is queued again by the scheduler keeps its successor") {
  ClusterRig rig = running_chain();
  rig.job("p").state = JobState::queued;
  rig.job("p").restarts = 1;
  CHECK(rig.round() == "requeued p#1");
  CHECK(rig.of("p").state == StageState::submitted);
  CHECK(rig.of("p").newest()->restarts == 1);
  CHECK(rig.of("p").successor);
  rig.run("p");
  CHECK(rig.round() == "started p#1");
}

}  // namespace longhaul
