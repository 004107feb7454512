// Ticks of a run that waits for weeks, and rounds that meet errors of the file system.
#include "orchestrator/controller/idle_look.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "contracts/settings/stages/command.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/scheduler/attempt_traces.h"
#include "orchestrator/state/epoch_log.h"
#include "orchestrator/state/run_folder.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

// One stage, whose script is never run where Slurm is made up.
struct IdleRig {
  testing::Scratch scratch;
  SystemClock clock;
  Logger log{"test", "", LogLevel::error};
  std::atomic<bool> stop{false};
  RunOrigin origin;

  IdleRig() {
    origin.artifact_root = scratch.file("artifacts");
    origin.programs_dir = parent_path(own_program_path());
    origin.software = "longhaul test";
  }
  std::string create(const std::string& script) {
    PlannedStage stage;
    stage.stage = "p";
    stage.kind = "command";
    stage.common.threads = 1;
    stage.common.retries = 0;
    CommandSettings settings;
    settings.script = script;
    stage.settings = command_fields().to_value(settings);
    RunPlan plan;
    plan.workflow = "idle";
    plan.stages.push_back(std::move(stage));
    const auto run = create_run(scratch.file("runs"), plan, origin, clock);
    REQUIRE_MESSAGE(run.ok(), (run.ok() ? "" : run.error().message()));
    return *run;
  }
  void program(const std::string& name, const std::string& text) {
    REQUIRE(write_file_atomic(scratch.file(name), "#!/bin/sh\n" + text, 0755).ok());
  }
  // Slurm takes every job, and shows none.
  void make_up_slurm() {
    program("sbatch", "case $1 in --version) echo slurm-wlm 22.05.8;; *) echo x >> " + scratch.file("submitted") +
                          "; echo 4711;; esac\n");
    program("squeue", "echo x >> " + scratch.file("asked") + "\n");
    program("scontrol", "exit 1\n");
    origin.site_text =
        "name = \"made-up\"\nscheduler = \"slurm\"\nslurm_backend = \"cli\"\n[classes.main]\npartition = "
        "\"main\"\n[programs]\n";
    for (const char* name : {"sbatch", "squeue", "scontrol"})
      origin.site_text += format("{} = \"{}\"\n", name, scratch.file(name));
  }
  int count(const std::string& file) const {
    const auto text = read_file(scratch.file(file));
    return text.ok() ? static_cast<int>(text->size() / 2) : 0;
  }
  Result<TickOutcome> tick_quietly(const std::string& run, std::int64_t patience_ms = 20'000) {
    return tick_until_quiet(run, {}, patience_ms, clock, log, stop);
  }
};

}  // namespace

TEST_CASE("a tick that finds nothing to do claims no epoch; news of any kind does") {
  IdleRig rig;
  rig.make_up_slurm();
  const std::string run = rig.create("true");
  auto first = rig.tick_quietly(run);
  REQUIRE_MESSAGE(first.ok(), (first.ok() ? "" : first.error().message()));
  CHECK(rig.count("submitted") == 1);
  CHECK(*newest_epoch(run) == 1);
  for (int i = 0; i < 5; ++i) {
    const int asked = rig.count("asked");
    const auto idle = rig.tick_quietly(run);
    REQUIRE_MESSAGE(idle.ok(), (idle.ok() ? "" : idle.error().message()));
    CHECK(idle->state == RunState::running);
    CHECK_FALSE(idle->changed);
    CHECK(*newest_epoch(run) == 1);
    CHECK(rig.count("asked") > asked);  // it has looked
  }
  JobRecord record;
  record.outcome = "failed";
  record.exit_code = 3;
  record.cause = "rank 0 ended";
  REQUIRE(write_record(record_path(attempt_folder(run, "p", 1), 0), record).ok());
  const auto ended = rig.tick_quietly(run);
  REQUIRE_MESSAGE(ended.ok(), (ended.ok() ? "" : ended.error().message()));
  CHECK(ended->state == RunState::failed);
  CHECK(*newest_epoch(run) == 2);
  CHECK(rig.tick_quietly(run)->state == RunState::failed);
  CHECK(*newest_epoch(run) == 2);
  REQUIRE(request(run, "resume", Value::make_table(), rig.clock).ok());
  REQUIRE(rig.tick_quietly(run).ok());
  CHECK(*newest_epoch(run) == 3);
  CHECK(rig.count("submitted") == 2);
}

TEST_CASE("a record that could not be written is believed as its lead reports it, and the stage goes on") {
  IdleRig rig;
  rig.make_up_slurm();
  const std::string run = rig.create("true");
  REQUIRE(rig.tick_quietly(run).ok());
  REQUIRE(make_directories(record_path(attempt_folder(run, "p", 1), 0)).ok());  // in its place
  TickOptions options;
  options.unwritten_record.emplace();
  options.unwritten_record->outcome = "failed";
  options.unwritten_record->cause = "cannot write x: No space left on device";
  options.unwritten_record->key = "another job's";
  REQUIRE(tick_until_quiet(run, options, 20'000, rig.clock, rig.log, rig.stop).ok());
  CHECK(read_run_status(run)->state == RunState::running);
  const auto read = read_epochs(run);
  for (const Fact& fact : read->facts)
    if (fact.kind == FactKind::submit) options.unwritten_record->key = fact.text("key");
  const auto reported = tick_until_quiet(run, options, 20'000, rig.clock, rig.log, rig.stop);
  REQUIRE_MESSAGE(reported.ok(), (reported.ok() ? "" : reported.error().message()));
  CHECK(reported->state == RunState::failed);
  CHECK(read_run_status(run)->find("p")->cause == "cannot write x: No space left on device");
}

TEST_CASE("rounds that meet an error of the file system are made again until it is over") {
  IdleRig rig;
  const std::string run = rig.create("true");
  const std::string requests = run + "/requests", aside = run + "/requests-aside";
  for (const bool drives : {false, true}) {
    CAPTURE(drives);
    REQUIRE(std::rename(requests.c_str(), aside.c_str()) == 0);
    REQUIRE(write_file_atomic(requests, "not a folder").ok());  // opendir: ENOTDIR
    std::thread mender([&] {
      rig.clock.sleep_ms(400);
      (void)remove_tree(requests).ok();
      (void)std::rename(aside.c_str(), requests.c_str());
    });
    TickOptions options;
    options.cpu_slots = 2;
    if (drives) {
      const auto status = drive(run, options, rig.clock, rig.log, rig.stop, nullptr, nullptr);
      mender.join();
      REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
      CHECK(status->state == RunState::succeeded);
    } else {
      const auto outcome = tick_until_quiet(run, options, 20'000, rig.clock, rig.log, rig.stop);
      mender.join();
      REQUIRE_MESSAGE(outcome.ok(), (outcome.ok() ? "" : outcome.error().message()));
    }
  }
}

TEST_CASE("an error that stays is reported when the patience is over") {
  IdleRig rig;
  const std::string run = rig.create("true");
  REQUIRE(remove_tree(run + "/requests").ok());
  REQUIRE(write_file_atomic(run + "/requests", "not a folder").ok());
  const auto outcome = rig.tick_quietly(run, 500);
  REQUIRE_FALSE(outcome.ok());
  CHECK(outcome.error().code == ErrorCode::io);
  CHECK(outcome.error().message().find("requests") != std::string::npos);
}

}  // namespace longhaul
