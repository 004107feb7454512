// What a trial's job has left, read as it lies there: whole, torn, damaged, or from one that failed.
#include "orchestrator/trials/trial_results.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/events/fault_event.h"
#include "orchestrator/state/run_folder.h"
#include "orchestrator/trials/rung_results.h"
#include "resiliency/taxonomy/fault_class.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

struct LeftBehind {
  testing::Scratch scratch;
  PlannedStage planned;
  LedgerStage stage;

  LeftBehind() {
    planned.stage = "trial";
    planned.variant = "tp2";
    planned.common.nodes = 2;
    planned.settings.set("global_batch_size", 4);
    planned.settings.set("sequence_length", 25);
    stage.id = planned.id();
    stage.state = StageState::succeeded;
    stage.attempts.emplace_back();
    stage.attempts.back().number = 1;
    stage.attempts.back().ran_ms = 3000;
  }
  TrialResult result(const std::string& events) {
    const std::string folder = attempt_folder(scratch.path(), stage.id, 1);
    REQUIRE(make_directories(folder).ok());
    REQUIRE(write_file_atomic(join_path(folder, "events.jsonl"), events).ok());
    return read_trial_result(scratch.path(), planned, stage, 2);
  }
};

std::string metric_line(int step, const std::string& rate) {
  return format(R"({{"t": "", "ms": 1, "kind": "metric", "rank": 0, "step": {}, "loss": 5.5, "tokens_per_s": {}}})",
                step, rate) +
         "\n";
}

}  // namespace

TEST_CASE("steps after the warm-up are measured, each once, and what is no number is counted") {
  LeftBehind left;
  const TrialResult result = left.result(
      metric_line(1, "10") + metric_line(2, "10") + metric_line(3, "200") + metric_line(4, "0") +
      metric_line(5, "NaN") + metric_line(6, "400") + metric_line(6, "100") + "not json\n" +
      R"({"t": "", "ms": 2, "kind": "metric", "step": 6, "heldout_loss": 5.0})" + "\n" +
      R"({"t": "", "ms": 2, "kind": "memory", "held_bytes": 4096})" + "\n" + metric_line(7, "100").substr(0, 40));
  CHECK(result.name == "tp2");
  CHECK(result.outcome == TrialOutcome::measured);
  CHECK(result.step_seconds == std::vector<double>{0.5, 0.25});
  CHECK(result.steps_done == 6);
  CHECK(result.peak_bytes == 4096);
  CHECK(result.losses.size() == 5);
  CHECK(result.nodes == 2);
  CHECK(result.node_seconds == doctest::Approx(6));
  CHECK(result.what == "2 metrics of it are no numbers");
}

TEST_CASE("a trial without events has no result, and one that was asked to end early is stopped") {
  LeftBehind left;
  CHECK(left.result("").step_seconds.empty());
  left.stage.figures.set("steps_planned", 20);
  CHECK(left.result(metric_line(3, "100")).outcome == TrialOutcome::stopped);
  left.stage.state = StageState::submitted;
  CHECK(left.result("").outcome == TrialOutcome::waiting);
  left.stage.state = StageState::running;
  CHECK(left.result(metric_line(3, "100")).outcome == TrialOutcome::running);
}

TEST_CASE("how a trial failed is reported by its lead, or else by how its job ended") {
  LeftBehind left;
  left.stage.state = StageState::failed;
  left.stage.cause = "rank 1 stands still in section micro_batch";
  left.stage.attempts.back().fault = "killed";
  FaultEvent fault;
  fault.fault_class = "hang";
  fault.cause = left.stage.cause;
  Event event;
  event.kind = fault_event_kind;
  event.fields = to_value(fault);
  const TrialResult hang = left.result(event_line(event));
  CHECK(hang.outcome == TrialOutcome::hang);
  CHECK(hang.what == left.stage.cause);

  CHECK(outcome_of_fault("", "crash", "killed by signal 11") == TrialOutcome::crash);
  CHECK(outcome_of_fault("stuck_collective", "program", "x") == TrialOutcome::hang);
  CHECK(outcome_of_fault("", "out_of_memory", "x") == TrialOutcome::out_of_memory);
  CHECK(outcome_of_fault("", "program", "exit code 6: too little memory: the 2 ranks need 4 GiB") ==
        TrialOutcome::out_of_memory);
  CHECK(outcome_of_fault("killed", "node_fail", "its host is gone") == TrialOutcome::lost);
  CHECK(outcome_of_fault("", "time_limit", "x") == TrialOutcome::stopped);
  CHECK(outcome_of_fault("", "bad_input", "x") == TrialOutcome::refused);
  CHECK(outcome_of_fault("exception", "program", "x") == TrialOutcome::crash);
}

TEST_CASE("a rung that a person or its time limit has ended says nothing of its configuration") {
  LeftBehind left;
  left.stage.state = StageState::failed;
  const auto end_of = [&](const char* fault) {
    left.stage.attempts.back().fault = fault;
    return read_rung_outcome(left.scratch.path(), left.planned, left.stage, "heldout_loss").result.end;
  };
  for (const FaultClass fault : {FaultClass::cancelled_there, FaultClass::wall_time})
    CHECK_MESSAGE(end_of(to_string(fault)) == hyper::RungEnd::stopped, to_string(fault));
  CHECK(end_of(to_string(FaultClass::node_fail)) == hyper::RungEnd::lost);
  CHECK(end_of("killed") == hyper::RungEnd::crashed);
}

}  // namespace longhaul
