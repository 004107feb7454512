// Variants of a matrix as tasks of arrays, and how many jobs may be in the queue.
#include <set>

#include "tests/unit/orchestrator/controller/cluster_rig.h"

namespace longhaul {
namespace {

ClusterRig matrix_rig(int variants, int array_tasks_max) {
  ClusterRig rig;
  for (int i = 0; i < variants; ++i) rig.stage("sft", format("v{}", i));
  rig.rules.array_tasks_max = array_tasks_max;
  return rig;
}

// "sft/v0 sft/v1 | sft/v2": what is submitted together.
std::string submitted_together(const std::vector<Fact>& facts) {
  std::string text, array;
  for (const Fact& fact : facts) {
    if (fact.kind != FactKind::submit) continue;
    const bool same = !text.empty() && !fact.text("array").empty() && fact.text("array") == array;
    if (!text.empty()) text += same ? " " : " | ";
    text += fact.stage;
    array = fact.text("array");
  }
  return text;
}

}  // namespace

TEST_CASE("variants that are ready together are the tasks of one array, and each has a key of its own") {
  ClusterRig rig = matrix_rig(3, 1000);
  CHECK(rig.round() == "ready sft/v0, ready sft/v1, ready sft/v2, submit sft/v0#1, submit sft/v1#1, submit sft/v2#1");
  CHECK(submitted_together(rig.decided) == "sft/v0 sft/v1 sft/v2");
  std::set<std::string> keys;
  for (int i = 0; i < 3; ++i) {
    const LedgerAttempt& attempt = *rig.ledger.stages[static_cast<std::size_t>(i)].newest();
    CHECK(attempt.task == i);
    CHECK(!attempt.array.empty());
    CHECK(attempt.key == array_task_key(attempt.array, i));
    keys.insert(attempt.key);
  }
  CHECK(keys.size() == 3);
  CHECK(rig.round() == "");
}

TEST_CASE("only what asks for the same shares an array; where there are none, every variant is a job") {
  ClusterRig rig = matrix_rig(4, 1000);
  rig.stage("other");
  rig.rules.stages[1].shape = rig.rules.stages[3].shape = "two nodes";
  rig.round();
  CHECK(submitted_together(rig.decided) == "sft/v0 sft/v2 | sft/v1 sft/v3 | other");
  CHECK(rig.of("other").newest()->array.empty());
  CHECK(rig.of("sft/v1").newest()->task == 0);

  for (const int tasks_max : {0, 1}) {
    CAPTURE(tasks_max);
    ClusterRig plain = matrix_rig(2, tasks_max);
    plain.round();
    CHECK(submitted_together(plain.decided) == "sft/v0 | sft/v1");
    CHECK(plain.of("sft/v0").newest()->array.empty());
    CHECK(plain.of("sft/v0").newest()->task == -1);
  }
}

TEST_CASE("variants of two stages do not share an array, however equal their jobs are") {
  ClusterRig rig = matrix_rig(2, 1000);
  for (const char* variant : {"v0", "v1"}) rig.stage("dpo", variant);
  rig.round();
  CHECK(submitted_together(rig.decided) == "sft/v0 sft/v1 | dpo/v0 dpo/v1");
}

TEST_CASE("a matrix larger than the largest array comes in windows with keys of their own") {
  ClusterRig rig = matrix_rig(5, 2);
  rig.round();
  CHECK(submitted_together(rig.decided) == "sft/v0 sft/v1 | sft/v2 sft/v3 | sft/v4");
  CHECK(rig.of("sft/v2").newest()->task == 0);
  CHECK(rig.of("sft/v0").newest()->array != rig.of("sft/v2").newest()->array);
  CHECK(rig.of("sft/v4").newest()->array.empty());
}

TEST_CASE("another try of a task is a job of its own, and later variants do not join the ended array") {
  ClusterRig rig = matrix_rig(3, 1000);
  rig.round();
  rig.run("sft/v0");
  rig.run("sft/v1");
  rig.round();
  rig.lose_node("sft/v0", "n7");
  rig.lose_node("sft/v1", "n8");
  rig.round();
  CHECK(submitted_together(rig.decided) == "sft/v0 | sft/v1");
  CHECK(rig.of("sft/v0").newest()->task == -1);
}

TEST_CASE("a task that ran and failed has failed, also when its sibling has stopped the run before it is tried again") {
  for (const bool together : {false, true}) {
    CAPTURE(together);
    ClusterRig rig = matrix_rig(3, 1000);
    for (PlannedStage& stage : rig.plan.stages) stage.common.on_failure = "stop";
    rig.plan.stages[0].common.retries = 0;
    rig.plan.stages[1].common.retries = 3;
    rig.rules.submitted_max = 2;  // v2 never runs
    rig.round();
    rig.run("sft/v0");
    rig.run("sft/v1");
    rig.round();
    if (together) rig.end("sft/v0", "failed", "no such file");
    rig.end("sft/v1", "failed", "loss is NaN");
    rig.rules.submitted_max = 1;  // so that the other try waits
    CHECK(rig.round() ==
          (together ? "failed sft/v0#1, retry sft/v1#1, failed sft/v1, skipped sft/v2, run_ended" : "retry sft/v1#1"));
    if (!together) {
      rig.end("sft/v0", "failed", "no such file");
      CHECK(rig.round() == "failed sft/v0#1, failed sft/v1, skipped sft/v2, run_ended");
    }
    CHECK(rig.of("sft/v1").state == StageState::failed);
    CHECK(rig.of("sft/v1").cause ==
          "loss is NaN; not tried again: stage sft/v0 failed and stops the run (on_failure = stop)");
    CHECK(rig.of("sft/v1").newest()->cause == "loss is NaN");
    CHECK(rig.of("sft/v1").started_ms > 0);
    CHECK(rig.fact(FactKind::skipped).text("cause").find("sft/v0 failed and stops the run") != std::string::npos);
  }
}

TEST_CASE("two controllers make the same array") {
  ClusterRig one = matrix_rig(3, 1000), other = matrix_rig(3, 1000);
  one.round();
  other.pass_s(86'400);
  other.round();
  CHECK(one.of("sft/v2").newest()->key == other.of("sft/v2").newest()->key);
}

TEST_CASE("what is to be submitted stands array by array, jobs of their own first") {
  ClusterRig rig = matrix_rig(2, 1000);
  rig.stage("alone");
  rig.stage("sft2", "x");
  rig.stage("sft2", "y");
  rig.round(false);
  const PendingActs acts = pending_acts(rig.ledger);
  REQUIRE(acts.submit.size() == 5);
  CHECK(acts.submit[0].stage->id == "alone");
  CHECK(acts.submit[1].attempt->array == acts.submit[2].attempt->array);
  CHECK(acts.submit[3].attempt->array == acts.submit[4].attempt->array);
  CHECK(acts.submit[1].attempt->array != acts.submit[3].attempt->array);
  CHECK(acts.submit[1].attempt->task == 0);
  CHECK(acts.submit[2].attempt->task == 1);
}

TEST_CASE("no more jobs are in the queue than the site lets a user have; the rest follows as they end") {
  ClusterRig rig;
  for (const char* name : {"a", "b", "c", "d"}) rig.stage(name);
  rig.rules.submitted_max = 2;
  CHECK(rig.round() == "ready a, ready b, ready c, ready d, submit a#1, submit b#1");
  CHECK(rig.round() == "");
  rig.succeed("b");
  CHECK(rig.round() == "succeeded b#1, submit c#1");
  rig.end("a", "failed", "no such file");
  CHECK(rig.round() == "retry a#1, submit a#2");  // in its own place: plan order
  rig.succeed("a");
  rig.succeed("c");
  CHECK(rig.round() == "succeeded a#2, succeeded c#1, submit d#1");
}

TEST_CASE("a class that lets a user have two jobs gets two, and other classes go on beside it") {
  ClusterRig rig;
  for (const char* name : {"a", "b", "c", "d"}) rig.stage(name);
  for (const std::size_t debug : {0U, 1U, 2U}) {
    rig.rules.stages[debug].job_class = "debug";
    rig.rules.stages[debug].class_submitted_max = 2;
  }
  rig.rules.stages[3].job_class = "prod";
  CHECK(rig.round() == "ready a, ready b, ready c, ready d, submit a#1, submit b#1, submit d#1");
  CHECK(rig.round() == "");
  rig.succeed("d");
  CHECK(rig.round() == "succeeded d#1");
  rig.succeed("b");
  CHECK(rig.round() == "succeeded b#1, submit c#1");

  ClusterRig arrays = matrix_rig(3, 1000);
  for (StageRules& rules : arrays.rules.stages) rules.job_class = "debug", rules.class_submitted_max = 2;
  arrays.round();
  CHECK(submitted_together(arrays.decided) == "sft/v0 sft/v1");
}

TEST_CASE("tasks of an array count one by one towards the jobs that a user may have") {
  ClusterRig rig = matrix_rig(5, 1000);
  rig.rules.submitted_max = 3;
  rig.round();
  CHECK(submitted_together(rig.decided) == "sft/v0 sft/v1 sft/v2");
  rig.succeed("sft/v1");
  CHECK(rig.round() == "succeeded sft/v1#1, submit sft/v3#1");
}

}  // namespace longhaul
