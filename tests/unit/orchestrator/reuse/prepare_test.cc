// What a stage's task and attempt are made of: what is left of its time, what it has saved, where its inputs are.
#include "orchestrator/reuse/prepare.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/files/files.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

LedgerAttempt prepared_attempt(const char* fault, std::int64_t ran_s) {
  LedgerAttempt attempt;
  attempt.fault = fault;
  attempt.ran_ms = ran_s * 1000;
  return attempt;
}

}  // namespace

TEST_CASE("a chain shares one time limit; tries after faults have all of it; a resume begins again") {
  PlannedStage planned;
  LedgerStage stage;
  CHECK(time_left_s(planned, stage) == 0);  // no limit
  planned.common.time_limit.value = 1000;
  CHECK(time_left_s(planned, stage) == 1000);
  stage.attempts = {prepared_attempt("wall_time", 300), prepared_attempt("node_fail", 50),
                    prepared_attempt("wall_time", 400), prepared_attempt("", 0)};
  CHECK(time_left_s(planned, stage) == 300);
  stage.attempts[2].ran_ms = 5'000'000;
  CHECK(time_left_s(planned, stage) == 1);  // 0 would be no limit at all
  stage.attempts_before_reset = 3;
  CHECK(time_left_s(planned, stage) == 1000);
}

TEST_CASE("a task's threads are the stage's, or an even share of the machine's cores") {
  PlannedStage planned;
  planned.stage = "s";
  planned.variant = "lr=1";
  planned.common.ranks = 4;
  LedgerStage stage;
  stage.key = "k";
  CHECK(make_task(planned, "run", stage, 10).resources.threads == 2);
  CHECK(make_task(planned, "run", stage, 1).resources.threads == 1);
  planned.common.threads = 7;
  const Task task = make_task(planned, "run", stage, 10);
  CHECK(task.resources.threads == 7);
  CHECK(task.resources.ranks == 4);
  CHECK(task.key == "k");
  CHECK(task.variant == "lr=1");
}

TEST_CASE("an input within an artifact is that part of it, and has to be there") {
  const testing::Scratch scratch;
  PlannedStage planned;
  planned.stage = "b";
  planned.kind = "command";
  planned.settings = Value::make_table();
  PlannedInput input;
  input.name = "model";
  input.stages = {"a"};
  input.within = "final/model";
  planned.inputs = {input};
  RunLedger ledger({"a", "b"});
  LedgerStage& source = *ledger.find("a");
  source.state = StageState::succeeded;
  source.artifact = scratch.file("out");
  source.digest = "d";
  const PreparedStage missing = prepare_stage(planned, ledger, "");
  CHECK(missing.problem.find("final/model") != std::string::npos);
  CHECK(missing.problem.find("artifact of a") != std::string::npos);
  CHECK(missing.key.empty());
  REQUIRE(make_directories(scratch.file("out/final/model")).ok());
  const PreparedStage there = prepare_stage(planned, ledger, "");
  CHECK(there.problem.empty());
  CHECK(!there.key.empty());
  REQUIRE(there.inputs.size() == 1);
  CHECK(there.inputs[0].paths == std::vector<std::string>{scratch.file("out/final/model")});
  CHECK(there.inputs[0].stage == "a");
  // The part takes part in the key, the place where it lies does not.
  planned.inputs[0].within.clear();
  CHECK(prepare_stage(planned, ledger, "").key != there.key);
  planned.inputs[0].within = "final/model";
  REQUIRE(make_directories(scratch.file("elsewhere/final/model")).ok());
  source.artifact = scratch.file("elsewhere");
  CHECK(prepare_stage(planned, ledger, "").key == there.key);
  source.digest = "another";
  CHECK(prepare_stage(planned, ledger, "").key != there.key);
}

TEST_CASE("who waits for raw inputs hears of each file that was read") {
  const testing::Scratch scratch;
  REQUIRE(make_directories(scratch.file("texts/below")).ok());
  for (const char* name : {"texts/a", "texts/below/b", "c"}) REQUIRE(write_file_atomic(scratch.file(name), name).ok());
  std::vector<std::size_t> counts;
  const auto read = [&](std::size_t files) { counts.push_back(files); };
  CHECK(digest_raw_input({scratch.file("texts"), scratch.file("c")}, nullptr, read).ok());
  CHECK(counts == std::vector<std::size_t>{1, 2, 3});
}

}  // namespace longhaul
