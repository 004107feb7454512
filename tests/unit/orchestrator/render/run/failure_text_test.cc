// A failure is printed once, its sentence first, with what to type next.
#include "orchestrator/render/run/failure_text.h"

#include <doctest/doctest.h>

#include "orchestrator/render/run/status_text.h"

namespace longhaul {
namespace {

RunStatus failed_run(const std::string& fault, const std::string& cause) {
  RunStatus status;
  status.run = "/data/runs/a-1", status.name = "a-1", status.state = RunState::failed;
  status.workflow_path = "/data/my.toml";
  StageStatus stage;
  stage.id = "corpus", stage.kind = "curate", stage.state = StageState::failed;
  stage.cause = cause, stage.fault = fault, stage.verdict = fault + " is not cured by trying again";
  status.stages.push_back(stage);
  for (const char* id : {"tokens", "pretrain"}) {
    StageStatus skipped;
    skipped.id = id, skipped.state = StageState::skipped, skipped.cause = "stage corpus failed and stops the run";
    status.stages.push_back(skipped);
  }
  return status;
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("the sentence of a cause stands before who said it") {
  CHECK(cause_sentence("rank 0 ended: exit code 3: longhaul-engine rank 0: stage a: error: no documents; add some") ==
        "no documents; add some (rank 0, exit code 3)");
  CHECK(cause_sentence("the ranks ended: exit code 1, in section forward at step 13: ValueError: x") ==
        "ValueError: x (all ranks, exit code 1, in section forward at step 13)");
  CHECK(cause_sentence("step two: rank 0 ended: exit code 3: broken") == "step two: broken (rank 0, exit code 3)");
  for (const char* as_it_is : {"rank 0 ended: killed by signal 9 (Killed)", "rank 0 ended: exit code 3",
                               "the node failed: n1", "", "rank 0 ended: "})
    CHECK(cause_sentence(as_it_is) == as_it_is);
}

TEST_CASE("a cause stands once in the status, and stages that were skipped for it are one line") {
  const RunStatus status =
      failed_run("bad_input", "rank 0 ended: exit code 3: longhaul-engine rank 0: stage corpus: X!");
  const std::string text = status_text(status, 0);
  CAPTURE(text);
  CHECK(count_of(text, "X!") == 1);
  CHECK(text.find("\ncorpus failed: X! (rank 0, exit code 3)\n"
                  "not tried again: bad_input is not cured by trying again\n") != std::string::npos);
  CHECK(count_of(text, "stage corpus failed and stops the run") == 1);
  CHECK(text.find("\nskipped: tokens, pretrain: stage corpus failed and stops the run\n") != std::string::npos);
}

TEST_CASE("what to type next fits the cause") {
  const std::string wrong = next_step_text(failed_run("bad_input", "x"));
  CHECK(wrong.find("correct /data/my.toml, or what it names") != std::string::npos);
  CHECK(wrong.find("\n  longhaul run /data/my.toml\n") != std::string::npos);
  CHECK(wrong.find("\n  longhaul resume") == std::string::npos);
  const std::string machine = next_step_text(failed_run("killed", "x"));
  CHECK(machine.find("go on from here:\n  longhaul resume /data/runs/a-1\n") != std::string::npos);
  CHECK(machine.find("\n  longhaul run /data/my.toml\n") != std::string::npos);
  RunStatus on_a_cluster = failed_run("bad_input", "x");
  on_a_cluster.driver = "lead";
  CHECK(next_step_text(on_a_cluster).find("\n  longhaul submit /data/my.toml\n") != std::string::npos);
  RunStatus well = failed_run("", "");
  well.state = RunState::succeeded;
  CHECK(next_step_text(well).empty());
}

TEST_CASE("a workflow file that has changed since is reported, with the lines that differ") {
  CHECK(changed_workflow_text("/w.toml", "a\nb\n", "a\nb\n").empty());
  const std::string text = changed_workflow_text("/w.toml", "a\nsteps = 9\n", "a\nsteps = 5\n");
  CHECK(text.find("/w.toml has changed since this run was made, which goes on with its own copy:\n"
                  "  line 2: steps = 5 -> steps = 9\n") == 0);
  CHECK(text.find("to use the changed file: longhaul run /w.toml") != std::string::npos);
  CHECK(changed_workflow_text("/w", "1\n2\n3\n4\n5", "").find("  and 2 more lines\n") != std::string::npos);
}

}  // namespace longhaul
