// What a cluster does to jobs, and what follows: nodes that fail, held jobs, maintenance; needs of every kind; budgets.
#include <cstdlib>
#include <utility>

#include "orchestrator/decide/job_end.h"
#include "resiliency/retry_policy.h"
#include "tests/unit/orchestrator/controller/cluster_rig.h"

namespace longhaul {
namespace {

std::string excluded(const ClusterRig& rig, const std::string& stage) {
  return join(rig.of(stage).newest()->exclude, " ");
}

// A stage that is there because of how `a` ends, in the way that the edge says.
ClusterRig edge_rig(NeedEdge edge, const std::string& on_failure = "stop") {
  ClusterRig rig;
  rig.stage("a").common.on_failure = on_failure;
  rig.plan.stages[0].common.retries = 0;
  PlannedStage& after = rig.stage("b");
  after.needs = {"a"};
  if (edge != NeedEdge::afterok) after.edges["a"] = edge;
  REQUIRE(rig.round() == "ready a, submit a#1");
  return rig;
}

}  // namespace

// --- nodes

TEST_CASE("after a node's failure the next jobs of all stages avoid it, until the suspicion expires") {
  ClusterRig rig;
  for (const char* name : {"p", "q", "r"}) rig.stage(name);
  rig.plan.stages[1].needs = {"p"};
  rig.plan.stages[2].needs = {"q"};
  CHECK(rig.round() == "ready p, submit p#1");
  CHECK(excluded(rig, "p").empty());
  rig.run("p");
  rig.round();
  rig.lose_node("p", "n3");
  CHECK(rig.round() == "retry p#1, submit p#2");
  CHECK(rig.of("p").attempts[0].fault == "node_fail");
  CHECK(excluded(rig, "p") == "n3");
  rig.succeed("p");
  rig.round();
  CHECK(rig.round() == "ready q, submit q#1");
  CHECK(excluded(rig, "q") == "n3");
  rig.succeed("q");
  rig.round();
  rig.pass_s(rig.rules.suspicion_ms / 1000);
  CHECK(rig.round() == "ready r, submit r#1");
  CHECK(excluded(rig, "r").empty());
}

TEST_CASE("a job of several nodes accuses none of them, and where nodes cannot be excluded none is named") {
  for (const bool several : {false, true}) {
    CAPTURE(several);
    ClusterRig rig;
    rig.rules.can_exclude = several;
    rig.stage("p");
    rig.round();
    rig.run("p");
    rig.round();
    rig.lose_node("p", several ? "n[3-4]" : "n3");
    CHECK(rig.round() == "retry p#1, submit p#2");
    CHECK(excluded(rig, "p").empty());
  }
}

TEST_CASE("a node that a job's lead has left is avoided by the next jobs") {
  ClusterRig rig;
  rig.stage("p").common.retries = 9;
  rig.round();
  rig.run("p");
  rig.round();
  JobInfo& end = rig.end("p", "failed", "rank 3 ended: exit code 1");
  end.record->nodes = "n[1-3]";
  end.record->nodes_left = {"n2"};
  CHECK(rig.round() == "retry p#1, submit p#2");
  CHECK(excluded(rig, "p") == "n2");
}

TEST_CASE("running out of memory is tried once on another node, and not a second time") {
  ClusterRig rig;
  rig.stage("p").common.retries = 9;
  rig.round();
  rig.run("p");
  rig.round();
  rig.end("p", "failed", "rank 0 ended: killed by signal 9").nodes = "n2";
  rig.job("p").end = SchedulerEnd::out_of_memory;
  CHECK(rig.round() == "retry p#1, submit p#2");
  CHECK(rig.of("p").attempts[0].fault == "out_of_memory");
  CHECK(excluded(rig, "p") == "n2");
  rig.run("p");
  rig.round();
  rig.end("p", "failed", "rank 0 ended: killed by signal 9").nodes = "n5";
  rig.job("p").end = SchedulerEnd::out_of_memory;
  CHECK(rig.round() == "failed p#2, run_ended");
  CHECK(rig.fact(FactKind::failed).text("reason").find("more memory") != std::string::npos);
}

TEST_CASE("faults of the machine do not use up the retries of the program") {
  ClusterRig rig;
  rig.stage("p").common.retries = 1;
  rig.plan.stages[0].common.infrastructure_retries = 2;
  rig.round();
  for (int i = 1; i <= 2; ++i) {
    rig.run("p");
    rig.round();
    rig.lose_node("p", format("n{}", i));
    CHECK(rig.round() == format("retry p#{}, submit p#{}", i, i + 1));
  }
  rig.end("p", "failed", "loss is NaN");
  CHECK(rig.round() == "retry p#3, submit p#4");
  rig.lose_node("p", "n9");
  CHECK(rig.round() == "failed p#4, run_ended");  // its own budget is used up
}

// --- progress

TEST_CASE("the retry storm: a training that fails before it saves ends when its retries are used up") {
  ClusterRig rig;
  rig.stage("p").common.retries = 1;
  rig.rules.stages[0].resumable = true;
  rig.round();
  rig.end("p", "failed", "loss is NaN at step 40").record->step = 40;
  rig.seen.saved["p"].step = -1;
  CHECK(rig.round() == "retry p#1, submit p#2");
  rig.end("p", "failed", "loss is NaN at step 39").record->step = 39;
  rig.seen.saved["p"].step = -1;
  CHECK(rig.round() == "failed p#2, run_ended");
}

TEST_CASE("every budget ends a run that saves nothing new, and a further checkpoint fills it again") {
  struct Case {
    const char* what;
    int granted;  // ends without progress before the last
    void (*end)(ClusterRig& rig, int number);
  };
  const Case cases[] = {
      {"retries", 2,
       [](ClusterRig& rig, int n) {
         rig.end("p", "failed", "fault " + std::string(static_cast<std::size_t>(n), 'x'));
       }},
      {"infrastructure", 3, [](ClusterRig& rig, int n) { rig.lose_node("p", format("n{}", n)); }},
      {"preemptions", 100,
       [](ClusterRig& rig, int) {
         JobInfo& info = rig.end("p", "cancelled", "asked to stop (SIGTERM)");
         info.record->scheduler_job = "7";
         info.end = SchedulerEnd::preempted;
       }},
      {"wall times", 2, [](ClusterRig& rig, int) { rig.end_at_wall_time("p", -1); }},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    ClusterRig rig;
    PlannedStage& stage = rig.stage("p");
    stage.common.retries = 2, stage.common.infrastructure_retries = 3;
    rig.rules.stages[0].resumable = true;
    rig.rules.can_exclude = false;
    rig.round();
    const auto next = [&](int number, std::int64_t saved_step) {
      rig.run("p");
      rig.round();
      c.end(rig, number);
      rig.seen.saved["p"].step = saved_step;
      return rig.round();
    };
    int number = 1;
    for (int used = 0; used < c.granted; ++used, ++number)
      REQUIRE(next(number, 100) == format("retry p#{}, submit p#{}", number, number + 1));
    REQUIRE(next(number, 101) == format("retry p#{}, submit p#{}", number, number + 1));
    ++number;
    for (int used = 1; used < c.granted; ++used, ++number)
      REQUIRE(next(number, 101) == format("retry p#{}, submit p#{}", number, number + 1));
    CHECK(next(number, 101) == format("failed p#{}, run_ended", number));
  }
}

// --- held jobs

TEST_CASE("a job that the scheduler holds is let go three times, then given up and tried anew") {
  ClusterRig rig;
  rig.stage("p");
  rig.round();
  rig.run("p");
  rig.round();
  rig.hold("p", 1);
  CHECK(rig.round() == "requeued p#1, release_job p#1");
  CHECK(rig.of("p").state == StageState::submitted);
  CHECK(rig.round() == "release_job p#1");
  CHECK(rig.round() == "release_job p#1");
  CHECK(rig.of("p").newest()->releases == 3);
  CHECK(rig.round() == "cancel_job p#1, retry p#1, submit p#2");
  CHECK(rig.of("p").attempts[0].fault == "launch_failed");
  CHECK(rig.of("p").attempts[0].cancel_sent);
  CHECK(rig.of("p").cause.find("held by the scheduler 4 times: launch_failed_requeued_held") != std::string::npos);
}

TEST_CASE("a held job that is given up is cancelled whatever becomes of its stage") {
  const auto about_to_be_given_up = [] {
    ClusterRig rig;
    rig.stage("p").common.infrastructure_retries = 0;
    rig.stage("q");
    rig.plan.budget_node_hours = 10;
    rig.round();
    rig.run("q");
    rig.hold("p", 0);
    for (int i = 0; i < 3; ++i) rig.round();
    return rig;
  };
  ClusterRig skipped = about_to_be_given_up();
  skipped.plan.stages[0].common.infrastructure_retries = 9;
  skipped.pass_s(11 * 3600);  // q has used up the budget
  CHECK(skipped.round() == "cancel_job p#1, retry p#1, skipped p");
  CHECK(skipped.of("p").attempts[0].cancel_sent);
  CHECK(pending_acts(skipped.ledger).cancel.empty());

  ClusterRig resumed = about_to_be_given_up();
  resumed.cancels_answered = false;
  CHECK(resumed.round() == "cancel_job p#1, failed p#1");
  REQUIRE(pending_acts(resumed.ledger).cancel.size() == 1);
  resumed.succeed("q");
  CHECK(resumed.round() == "succeeded q#1");
  CHECK(resumed.round() == "");  // the run does not end before the queue is clean
  resumed.cancels_answered = true;
  resumed.seen.requests = {{"1", "resume"}};
  CHECK(resumed.round() == "request, reset p");
  CHECK(resumed.of("p").attempts[0].cancel_sent);
  CHECK(resumed.round() == "ready p, submit p#2");
  CHECK(!resumed.of("p").newest()->cancel_wanted);
}

TEST_CASE("a job that has started was let go, though nobody wrote down that he did it") {
  ClusterRig rig;
  rig.stage("p");
  rig.round();
  rig.hold("p", 0);
  for (const Fact& fact : decide(rig.plan, rig.rules, rig.ledger, rig.seen, "run")) rig.ledger.apply(fact);
  REQUIRE(pending_acts(rig.ledger).release.size() == 1);  // done by a controller that died before it said so
  rig.run("p");
  CHECK(rig.round() == "started p#1");
  CHECK(pending_acts(rig.ledger).release.empty());
}

TEST_CASE("a held job is not let go twice before the first answer, nor when it is to be cancelled") {
  ClusterRig rig;
  rig.stage("p");
  rig.round();
  rig.hold("p", 0);
  rig.decided = decide(rig.plan, rig.rules, rig.ledger, rig.seen, "run");
  REQUIRE(rig.decided.size() == 1);
  rig.ledger.apply(rig.decided[0]);  // and nobody acts upon it
  CHECK(decide(rig.plan, rig.rules, rig.ledger, rig.seen, "run").empty());
  CHECK(pending_acts(rig.ledger).release.size() == 1);
  rig.write_fact(FactKind::cancel_job, "p", 1);
  CHECK(pending_acts(rig.ledger).release.empty());
  rig.write_fact(FactKind::released, "p", 1);
  CHECK(decide(rig.plan, rig.rules, rig.ledger, rig.seen, "run").empty());
}

TEST_CASE("a job that only waits is left alone") {
  ClusterRig rig;
  rig.stage("p");
  rig.round();
  rig.job("p").state = JobState::queued;
  rig.job("p").reason = "Resources";
  for (int i = 0; i < 3; ++i) CHECK(rig.round() == "");
}

// --- maintenance

TEST_CASE("what can go on later is shortened to end before the next maintenance, if that is worth its start") {
  struct Case {
    const char* what;
    std::int64_t maintenance_in_s;  // after the round
    bool resumable;
    double wall_s;  // asked for; 0: as planned
  };
  const Case cases[] = {
      {"none is known", -1, true, 0},
      {"long after the job's end", 7200, true, 0},
      {"just after the job's end and the margin", 3900, true, 0},
      {"a minute too early", 3840, true, 3540},
      {"whole minutes", 2499, true, 2160},
      {"the shortest that is worth it", 2100, true, 1800},
      {"not worth it", 2099, true, 0},
      {"it has begun", 0, true, 0},
      {"what cannot go on keeps its time", 3000, false, 0},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    ClusterRig rig;
    rig.chain("p", 3600);
    rig.rules.stages[0].resumable = c.resumable;
    if (c.maintenance_in_s >= 0) rig.rules.maintenance_ms = rig.seen.now_ms + 60'000 + c.maintenance_in_s * 1000;
    CHECK(rig.round() == "ready p, submit p#1");
    CHECK(rig.of("p").newest()->wall_s == c.wall_s);
  }
}

// --- needs

TEST_CASE("a need is met by a good end, by any end, or by a failure, as its edge says") {
  struct Case {
    NeedEdge edge;
    bool fails;
    const char* facts;  // of the rounds after a's end
  };
  const Case cases[] = {
      {NeedEdge::afterok, false, "succeeded a#1; ready b, submit b#1"},
      {NeedEdge::afterok, true, "failed a#1, skipped b, run_ended; "},
      {NeedEdge::afterany, false, "succeeded a#1; ready b, submit b#1"},
      {NeedEdge::afterany, true, "failed a#1; ready b, submit b#1"},
      {NeedEdge::afternotok, false, "succeeded a#1, skipped b, run_ended; "},
      {NeedEdge::afternotok, true, "failed a#1; ready b, submit b#1"},
  };
  for (const Case& c : cases) {
    CAPTURE(to_string(c.edge));
    CAPTURE(c.fails);
    ClusterRig rig = edge_rig(c.edge);
    if (c.fails)
      rig.end("a", "failed", "broken");
    else
      rig.succeed("a");
    const std::string first = rig.round();
    CHECK(first + "; " + rig.round() == c.facts);
    if (!rig.ledger.ended) {
      rig.succeed("b");
      CHECK(rig.round() == "succeeded b#1, run_ended");
    }
    CHECK(rig.ledger.state == (c.fails ? RunState::failed : RunState::succeeded));  // a clean-up heals nothing
  }
}

TEST_CASE("what waits for a stage that never ran is skipped, whatever the edge") {
  for (const NeedEdge edge : {NeedEdge::afterok, NeedEdge::afterany, NeedEdge::afternotok}) {
    CAPTURE(to_string(edge));
    ClusterRig rig;
    rig.stage("z").common.retries = 0;
    rig.plan.stages[0].common.on_failure = "skip-dependents";
    rig.stage("a").needs = {"z"};
    PlannedStage& after = rig.stage("b");
    after.needs = {"a"};
    after.edges["a"] = edge;
    rig.round();
    rig.end("z", "failed", "broken");
    CHECK(rig.round() == "failed z#1, skipped a, skipped b, run_ended");
    CHECK(rig.of("b").cause == "it needs a, which is skipped");
  }
}

TEST_CASE("a stage that waits for several needs all of them, each in its own way") {
  ClusterRig rig;
  rig.stage("a").common.on_failure = "skip-dependents";
  rig.plan.stages[0].common.retries = 0;
  rig.stage("c");
  PlannedStage& both = rig.stage("b");
  both.needs = {"a", "c"};
  both.edges["a"] = NeedEdge::afternotok;
  rig.round();
  rig.end("a", "failed", "broken");
  CHECK(rig.round() == "failed a#1");
  CHECK(rig.round() == "");  // c runs
  rig.succeed("c");
  CHECK(rig.round() == "succeeded c#1");
  CHECK(rig.round() == "ready b, submit b#1");
}

// --- budget

TEST_CASE("once the budget is used up, a lost job is not tried again and the run says that it failed") {
  ClusterRig rig;
  rig.stage("p");
  rig.stage("q").needs = {"p"};
  rig.plan.budget_node_hours = 1;
  rig.round();
  rig.run("p");
  rig.round();
  rig.pass_s(4000);
  rig.lose_node("p", "n1");
  CHECK(rig.round() == "retry p#1, failed p, skipped q, run_ended");
  CHECK(rig.of("p").cause ==
        "Slurm says NODE_FAIL on n1; not tried again: the run's budget of 1 node-hours is used up");
  CHECK(rig.of("q").cause == "the run's budget of 1 node-hours is used up");
  CHECK(rig.ledger.state == RunState::failed);
}

// --- cancelling

TEST_CASE("a cancelled intent that nobody answered ends as cancelled, whether it was submitted or not") {
  for (const bool was_submitted : {false, true}) {
    CAPTURE(was_submitted);
    ClusterRig rig;
    rig.stage("p");
    rig.round(false);
    rig.seen.requests = {{"1", "cancel"}};
    CHECK(rig.round(false) == "request, cancel_job p#1");
    REQUIRE(pending_acts(rig.ledger).submit.size() == 1);  // looked for: nobody knows whether it is there
    CHECK(pending_acts(rig.ledger).submit[0].attempt->cancel_wanted);
    CHECK(rig.round(false) == "");
    if (was_submitted) {
      rig.write_fact(FactKind::submitted, "p", 1, "job", "77");
      CHECK(rig.round() == "");
      CHECK(rig.of("p").newest()->cancel_sent);
      rig.end("p", "cancelled", "cancelled before it started");
    } else {
      rig.write_fact(FactKind::refused, "p", 1, "cause", "cancelled before it was submitted");
    }
    CHECK(rig.round() == "cancelled p#1, run_ended");
    CHECK(rig.ledger.state == RunState::cancelled);
    CHECK(!rig.of("p").cause.empty());
    const PendingActs left = pending_acts(rig.ledger);
    CHECK(left.submit.size() + left.cancel.size() == 0);
  }
}

TEST_CASE("the job that holds an attempt is the attempt's, though another one was written down") {
  ClusterRig rig;
  rig.stage("p").common.retries = 5;
  rig.round();
  rig.run("p");
  rig.job("p").id = "late";
  CHECK(rig.round() == "submitted p#1, started p#1");
  CHECK(rig.of("p").newest()->job == "late");
  CHECK(rig.fact(FactKind::submitted).text("instead_of").substr(0, 1) == "j");
  rig.seen.jobs.begin()->second.id = "late";
  CHECK(rig.round() == "");
}

TEST_CASE("a submission that the scheduler refuses is a fault of the request and not of the machine") {
  ClusterRig rig;
  rig.stage("p").common.retries = 1;
  rig.round(false);
  rig.write_fact(FactKind::refused, "p", 1, "cause", "Invalid account");
  CHECK(rig.round(false) == "retry p#1, submit p#2");
  CHECK(rig.of("p").attempts[0].fault == "not_started");
  rig.write_fact(FactKind::refused, "p", 2, "cause", "Invalid account");
  CHECK(rig.round() == "failed p#2, run_ended");
  CHECK(rig.of("p").cause == "Invalid account");
}

TEST_CASE("a job that a person cancels in the scheduler is not tried again behind his back") {
  ClusterRig rig;
  rig.stage("p").common.retries = 5;
  rig.round();
  rig.run("p");
  rig.round();
  JobInfo& info = rig.end("p", "cancelled", "asked to stop (SIGTERM)");
  info.record->scheduler_job = "77";
  CHECK(rig.round() == "");  // why, only the scheduler knows
  info.end = SchedulerEnd::cancelled;
  CHECK(rig.round() == "failed p#1, run_ended");
  CHECK(rig.fact(FactKind::failed).text("fault") == "cancelled_there");
  CHECK(rig.fact(FactKind::failed).text("reason").find("longhaul resume") != std::string::npos);
}

TEST_CASE(
    "a cancelled run ends as cancelled, whatever host is lost in the same moment, and its job is not let live again") {
  ClusterRig rig;
  rig.stage("p").common.infrastructure_retries = 9;
  rig.rules.stages[0].resumable = true;
  rig.round();
  rig.run("p");
  rig.round();
  rig.seen.requests = {{"1.json", "cancel"}};
  rig.cancels_answered = false;
  CHECK(rig.round() == "request, cancel_job p#1");
  rig.write_fact(FactKind::cancel_sent, "p", 1);
  CHECK(pending_acts(rig.ledger).cancel.empty());
  SUBCASE("Slurm ends it for the host") {
    rig.lose_node("p", "n2");
    CHECK(rig.round() == "cancelled p#1, run_ended");
    CHECK(rig.of("p").cause == "cancelled on request");
  }
  SUBCASE("its lead was asked to stop, and Slurm speaks of the host") {
    rig.end("p", "cancelled", "asked to stop (SIGTERM), after node n2 is gone").end = SchedulerEnd::node_fail;
    CHECK(rig.round() == "cancelled p#1, run_ended");
    CHECK(rig.of("p").cause == "cancelled on request");
  }
  SUBCASE("Slurm has queued it again before it heard of the cancellation") {
    JobInfo& info = rig.job("p");
    info.state = JobState::queued, info.restarts = 1;
    CHECK(rig.round() == "requeued p#1");
    CHECK(pending_acts(rig.ledger).cancel.size() == 1);
    rig.write_fact(FactKind::cancel_sent, "p", 1);
    CHECK(rig.round() == "");
  }
}

TEST_CASE("a lead's clock that is wrong by hours changes no duration and no budget") {
  constexpr std::int64_t hour_ms = 3'600'000;
  for (const std::int64_t wrong_ms : {std::int64_t{0}, 20 * hour_ms, -20 * hour_ms})
    for (const bool reported_by_slurm : {false, true})
      for (const bool well : {false, true}) {
        CAPTURE(wrong_ms);
        CAPTURE(reported_by_slurm);
        CAPTURE(well);
        ClusterRig rig;
        rig.stage("train");
        rig.round();
        const std::int64_t begun_ms = rig.seen.now_ms;
        rig.run("train");
        if (!reported_by_slurm) rig.job("train").started_ms += wrong_ms;
        rig.round();
        rig.pass_s(6 * 60);
        const std::int64_t ended_ms = rig.seen.now_ms;
        if (well)
          rig.succeed("train");
        else
          rig.end("train", "failed", "a mistake");
        rig.job("train").record->started_ms = begun_ms + wrong_ms;
        rig.job("train").record->ended_ms = ended_ms + wrong_ms;
        rig.round();
        const LedgerAttempt& attempt = rig.of("train").attempts.front();
        const std::int64_t slack_ms = 120'000;  // rounds are a minute apart
        CHECK(attempt.ended_ms >= ended_ms);
        CHECK(attempt.ended_ms <= rig.seen.now_ms);
        CHECK(std::abs(attempt.ran_ms - (ended_ms - begun_ms)) <= slack_ms);
      }
}

TEST_CASE("times by our clock: what cannot be is of another clock, and only its length counts") {
  constexpr std::int64_t wanted_ms = 1'000'000, now_ms = 2'000'000;
  const auto ours = [&](std::int64_t started_ms, std::int64_t ended_ms) {
    const JobTimes times = times_by_our_clock({started_ms, ended_ms}, wanted_ms, now_ms);
    return std::pair(times.started_ms, times.ended_ms);
  };
  using P = std::pair<std::int64_t, std::int64_t>;
  CHECK(ours(0, 0) == P(0, 0));
  CHECK(ours(1'200'000, 1'900'000) == P(1'200'000, 1'900'000));
  CHECK(ours(900'000, 2'100'000) == P(900'000, 2'100'000));  // clocks of one site differ a little
  CHECK(ours(1'200'000, 0) == P(1'200'000, 0));
  CHECK(ours(9'000'000, 0) == P(2'000'000, 0));
  CHECK(ours(0, 9'000'000) == P(0, 2'000'000));
  CHECK(ours(9'000'000, 9'300'000) == P(1'700'000, 2'000'000));
  CHECK(ours(5, 300'005) == P(1'700'000, 2'000'000));
  CHECK(ours(1'200'000, 9'000'000) == P(1'000'000, 2'000'000));  // it was set while the job ran
  CHECK(ours(1'900'000, 1'200'000) == P(2'000'000, 2'000'000));
}

}  // namespace longhaul
