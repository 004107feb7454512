// Which jobs a controller waits for, and when a record alone says that one has ended.
#include "orchestrator/job/open_jobs.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "orchestrator/scheduler/attempt_traces.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

RunLedger ledger_of_open_jobs() {
  RunLedger ledger({"runs", "waits", "done"});
  const auto apply = [&](FactKind kind, const std::string& stage, int attempt, const char* field = "",
                         const Value& value = {}) {
    Value fields = Value::make_table();
    if (*field) fields.set(field, value);
    ledger.apply({kind, stage, attempt, std::move(fields), 0});
  };
  for (const char* stage : {"runs", "done"}) {
    apply(FactKind::ready, stage, 0);
    apply(FactKind::submit, stage, 1, "key", std::string(stage) + ".1");
    apply(FactKind::submitted, stage, 1, "job", "7");
    apply(FactKind::started, stage, 1);
  }
  apply(FactKind::succeeded, "done", 1);
  apply(FactKind::submit_next, "runs", 2, "key", "runs.2");
  REQUIRE(ledger.refused.empty());
  return ledger;
}

void leave_record_of_life(const std::string& folder, int restarts, const std::string& outcome) {
  JobRecord record;
  record.outcome = outcome;
  record.restarts = restarts;
  record.started_ms = 1000 + restarts;
  REQUIRE(write_record(record_path(folder, restarts), record).ok());
}

void leave_claim_of_life(const std::string& folder, int restarts) {
  REQUIRE(write_claim(claim_path(folder, restarts),
                      {.key = "k", .host = "n1", .process = {}, .started_ms = 5, .scheduler_job = "7"})
              .ok());
}

}  // namespace

TEST_CASE("open jobs: the newest attempt of an open stage and its successor, with as many restarts as the log knows") {
  RunLedger ledger = ledger_of_open_jobs();
  auto open = open_jobs("/run", ledger);
  REQUIRE(open.size() == 2);
  CHECK(open[0].key == "runs.1");
  CHECK(open[0].id == "7");
  CHECK(open[0].attempt_dir == "/run/stages/runs/attempts/1");
  CHECK(open[0].restarts == 0);
  CHECK(open[1].key == "runs.2");
  CHECK(open[1].id.empty());
  CHECK(open[1].attempt_dir == "/run/stages/runs/attempts/2");
  Value fields = Value::make_table();
  fields.set("restarts", 2);
  ledger.apply({FactKind::requeued, "runs", 1, fields, 0});
  open = open_jobs("/run", ledger);
  REQUIRE(open.size() == 2);
  CHECK(open[0].restarts == 2);
  CHECK(open[1].restarts == 0);
}

TEST_CASE("open jobs: each with what else its job is known by, where a site changes comments") {
  RunLedger ledger({"sft/lr=1"});
  const auto apply = [&](FactKind kind, std::int64_t at_ms, const Value& fields) {
    ledger.apply({kind, "sft/lr=1", kind == FactKind::ready ? 0 : 1, fields, at_ms});
  };
  apply(FactKind::ready, 1'000, Value::make_table());
  Value task = Value::make_table();
  task.set("key", "array+0");
  task.set("array", "array");
  task.set("task", 0);
  apply(FactKind::submit, 2'000, task);
  auto open = open_jobs("/run", ledger);
  REQUIRE(open.size() == 1);
  CHECK(open[0].folder == "/run/stages/sft/arrays/array");
  CHECK(open[0].work_dir == "/run");
  CHECK(open[0].wanted_ms == 2'000);
  CHECK(open[0].answered_ms == 0);
  Value answer = Value::make_table();
  answer.set("job", "7_0");
  apply(FactKind::submitted, 3'000, answer);
  open = open_jobs("/run", ledger);
  CHECK(open[0].answered_ms == 3'000);
  ledger = ledger_of_open_jobs();
  open = open_jobs("/run", ledger);
  CHECK(open[0].folder == open[0].attempt_dir);  // the script's argument, of a job of its own
}

TEST_CASE("a record ends a job only in the life that the log knows of, and while no later one has begun") {
  const testing::Scratch scratch;
  OpenJob job{"k", "7", scratch.path()};
  CHECK_FALSE(end_by_record(job));
  leave_claim_of_life(scratch.path(), 0);
  CHECK_FALSE(end_by_record(job));
  leave_record_of_life(scratch.path(), 0, "failed");
  auto ended = end_by_record(job);
  REQUIRE(ended);
  CHECK(ended->state == JobState::ended);
  CHECK(ended->key == "k");
  CHECK(ended->id == "7");
  CHECK(ended->restarts == 0);
  CHECK(ended->started_ms == 1000);
  CHECK(ended->record->outcome == "failed");
  CHECK(ended->end == SchedulerEnd::none);

  // Queued again, as the log knows: the record of its first life says nothing any more.
  job.restarts = 1;
  CHECK_FALSE(end_by_record(job));
  // Queued again, as nobody has reported yet: what has begun there is not over.
  job.restarts = 0;
  leave_claim_of_life(scratch.path(), 1);
  CHECK_FALSE(end_by_record(job));
  // The second life has ended, too: only for those who know that it was the second.
  leave_record_of_life(scratch.path(), 1, "succeeded");
  CHECK_FALSE(end_by_record(job));
  job.restarts = 1;
  ended = end_by_record(job);
  REQUIRE(ended);
  CHECK(ended->restarts == 1);
  CHECK(ended->record->outcome == "succeeded");
}

}  // namespace longhaul
