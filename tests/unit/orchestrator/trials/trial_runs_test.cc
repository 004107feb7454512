// Trials as jobs of real leads; in the engine's place stands a script whose trials end as their names say. Beside it
// the fake that other tests may use: both pass one contract.
#include "orchestrator/trials/trial_runs.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "orchestrator/controller/controller.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/state/epoch_log.h"
#include "orchestrator/workflow/planner.h"
#include "orchestrator/workflow/trials/trial_stage.h"
#include "tests/support/plain_files.h"
#include "tests/support/scratch.h"
#include "tests/unit/orchestrator/controller/fake_trial_runner.h"
#include "tests/unit/orchestrator/controller/trial_runner_contract.h"

namespace longhaul {
namespace {

// Twelve steps a trial, of 2048 tokens each.
constexpr const char* stand_in_engine = R"sh(#!/bin/bash
set -eu
for word in "$@"; do last=$word; [ "${previous:-}" = --launch ] && launch=$word; previous=$word; done
value() { sed -n "s/^$1 = \"\(.*\)\"/\1/p" "$launch"; }
events=$(value events_path) out=$(value output_dir) state=$(value state_dir)
stage=$(dirname "$state") name=$(basename "$(dirname "$state")")
echo "$name" >> "$TRIALS_EFFECTS"
steps=12 rate=204800
case $name in slow) rate=68266.66666667;; endless) steps=2000;; esac
for ((step = 1; step <= steps; ++step)); do
  [ "$name" = crash ] && [ $step = 3 ] && kill -SEGV $$
  if [ "$name" = memory ] && [ $step = 2 ]; then echo "longhaul-engine: too little memory: for a test" >&2; exit 6; fi
  if [ "$name" = endless ]; then sleep 0.03; [ -n "$(ls "$stage/orders" 2>/dev/null)" ] && break; fi
  echo "{\"t\": \"\", \"ms\": $step, \"kind\": \"metric\", \"rank\": 0, \"step\": $step, \"loss\": 5.5, \"tokens_per_s\": $rate}" >> "$events"
done
more=""
[ "$name" = endless ] && more=', "steps_planned": 2000'
echo "{\"figures\": {\"steps\": $step$more}}" > "$out/artifact.json"
)sh";

constexpr const char* trials_workflow = R"([workflow]
name = "w"
[stage.layout]
kind = "tune"
for = "pretrain"
steps = 12
warmup_steps = 2
[stage.pretrain]
kind = "pretrain"
inputs = { tokens = "tokens" }
steps = 100
threads = 1
sequence_length = 64
micro_batch_size = 2
global_batch_size = 32
model = { hidden_size = 32, num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2, max_position_embeddings = 64 }
parallel = "@layout"
)";

// A run with a tune stage, before its first round.
struct TrialsRig {
  testing::Scratch scratch;
  SystemClock clock;
  Logger log{"test", "", LogLevel::error};
  RunPlan plan;
  std::string run;
  std::string effects = scratch.file("effects");

  explicit TrialsRig(const std::string& candidates = {}, const std::string& more = {}) {
    ::setenv("TRIALS_EFFECTS", effects.c_str(), 1);
    const std::string bin = scratch.file("bin"), real = parent_path(own_program_path());
    REQUIRE(make_directories(bin).ok());
    REQUIRE(make_directories(scratch.file("tokens")).ok());
    REQUIRE(write_file_atomic(scratch.file("tokens/train.bin"), "tokens").ok());
    REQUIRE(write_file_atomic(bin + "/longhaul-engine", stand_in_engine, 0755).ok());
    REQUIRE(::symlink((real + "/longhaul-worker").c_str(), (bin + "/longhaul-worker").c_str()) == 0);
    WorkflowRequest request;
    request.text = trials_workflow;
    if (!candidates.empty())
      request.text.insert(request.text.find("[stage.pretrain]"), "candidates = [" + candidates + "]\n" + more);
    request.path = "w.toml";
    request.folder = scratch.path();
    request.site.set("name", "local");
    request.can_search_layouts = true;
    auto outcome = plan_workflow(request, testing::PlainFiles());
    REQUIRE_MESSAGE(outcome.diagnostics.empty(), outcome.diagnostics.render(""));
    plan = std::move(outcome.plan);
    RunOrigin origin;
    origin.artifact_root = scratch.file("artifacts");
    origin.programs_dir = bin;
    origin.software = "longhaul test";
    const auto made = create_run(scratch.file("runs"), plan, origin, clock);
    REQUIRE_MESSAGE(made.ok(), (made.ok() ? "" : made.error().message()));
    run = *made;
  }
  int begun(const std::string& name) const {
    const auto text = read_file(effects);
    int count = 0;
    if (text.ok())
      for (const std::string& line : split(*text, '\n')) count += line == name;
    return count;
  }
  TickOptions options() const {
    TickOptions options;
    options.cpu_slots = 2;
    return options;
  }
};

struct RealRunnerRig : TrialsRig {
  std::unique_ptr<TrialRuns> runs;

  RealRunnerRig() { reopen(); }
  TrialRunner& runner() { return *runs; }
  void reopen() {
    const auto frozen = read_frozen_run(run);
    REQUIRE(frozen.ok());
    const PlannedStage& tune = frozen->plan.stages[0];
    const auto target = target_of(tune);
    REQUIRE(target.ok());
    NestedRunSetup child;
    child.run_dir = run;
    child.run = *frozen;
    child.options = options();
    TrialRunsSetup setup{child, tune, *target, {{"tokens", {scratch.file("tokens")}, "", "d"}}};
    runs = std::make_unique<TrialRuns>(std::move(setup), clock, log);
  }
  Trial trial(const std::string& name, double seconds) {
    Trial made;
    made.name = name;
    made.steps = name == "endless" ? 2000 : 12;
    made.predicted_seconds = seconds;
    made.settings = *parse_toml(name == "refused" ? "parallel = { tp = 3 }\n" : "parallel = {}\nranks = 1\n", "");
    return made;
  }
  int starts(const std::string& name) const { return begun(name); }
  void wait() { clock.sleep_ms(5); }
};

struct FakeRunnerRig {
  FakeTrials trials;
  std::unique_ptr<FakeTrialRunner> fake = std::make_unique<FakeTrialRunner>(trials);

  TrialRunner& runner() { return *fake; }
  void reopen() { fake = std::make_unique<FakeTrialRunner>(trials); }
  static Trial trial(const std::string& name, double seconds) {
    Trial made;
    made.name = name;
    made.steps = name == "endless" ? 1 << 30 : 12;
    made.predicted_seconds = seconds;
    return made;
  }
  int starts(const std::string& name) { return trials.starts[name]; }
  void wait() {}
};

constexpr const char* three_candidates =
    "{ name = \"slow\", parallel = {} }, { name = \"crash\", parallel = {}, micro_batch_size = 4 }, "
    "{ name = \"fast\", parallel = {}, micro_batch_size = 8 }";

}  // namespace

TEST_CASE("a fake of trials keeps the promises of a runner of trials") {
  FakeRunnerRig rig;
  check_trial_runner_contract(rig);
}

TEST_CASE("trials as jobs keep the promises of a runner of trials") {
  RealRunnerRig rig;
  check_trial_runner_contract(rig);
}

TEST_CASE("a tune stage finds the fastest, its stage is laid out so, and a second run takes both from the first") {
  TrialsRig rig(three_candidates);
  const std::atomic<bool> stop{false};
  const auto status = drive(rig.run, rig.options(), rig.clock, rig.log, stop, nullptr, nullptr);
  REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
  CHECK(status->state == RunState::succeeded);
  for (const char* name : {"slow", "fast", "crash"}) CHECK(rig.begun(name) == 1);
  CHECK(rig.begun("pretrain") == 1);
  const auto task = read_task(rig.run + "/stages/pretrain/task.toml");
  REQUIRE(task.ok());
  CHECK(task->settings.get_integer("micro_batch_size") == 8);
  CHECK(task->settings.get_integer("steps") == 100);
  const StageStatus* tune = status->find("layout");
  REQUIRE(tune->trials.size() == 3);
  CHECK(tune->trials[1].outcome == "crash");
  CHECK(tune->trials[1].why.find("11") != std::string::npos);
  CHECK(tune->figures.get_integer("trials") == 3);
  CHECK(tune->figures.get_number("step_seconds") == doctest::Approx(0.01));
  // The key is that of a stage into which somebody has pasted the layout.
  const auto pasted = with_found(*rig.plan.find("pretrain"), *parse_toml("parallel = {}\nmicro_batch_size = 8\n", ""));
  REQUIRE(pasted.ok());
  Task by_hand = *task;
  by_hand.settings = pasted->settings;
  CHECK(task_key(by_hand) == task->key);

  RunOrigin origin;
  origin.artifact_root = rig.scratch.file("artifacts");
  origin.programs_dir = rig.scratch.file("bin");
  const auto second = create_run(rig.scratch.file("runs"), rig.plan, origin, rig.clock);
  REQUIRE(second.ok());
  const auto again = drive(*second, rig.options(), rig.clock, rig.log, stop, nullptr, nullptr);
  REQUIRE(again.ok());
  CHECK(again->find("layout")->state == StageState::cached);
  CHECK(again->find("pretrain")->state == StageState::cached);
  CHECK(rig.begun("fast") == 1);
}

TEST_CASE("controllers that come and go at every round lose no trial and run none twice") {
  TrialsRig rig(three_candidates);
  const Deadline deadline(rig.clock, 60'000);
  for (;;) {  // each a controller of its own, as after a kill: nothing is remembered but what lies in the folder
    std::int64_t epoch = 0;
    const auto outcome = tick(rig.run, epoch, rig.options(), rig.clock, rig.log);
    REQUIRE_MESSAGE(outcome.ok(), (outcome.ok() ? "" : outcome.error().message()));
    if (outcome->state != RunState::running) {
      CHECK(outcome->state == RunState::succeeded);
      break;
    }
    REQUIRE_FALSE(deadline.passed());
    rig.clock.sleep_ms(20);
  }
  for (const char* name : {"slow", "fast", "crash", "pretrain"}) CHECK(rig.begun(name) == 1);
}

TEST_CASE("cancel ends the trials with the run; resume runs those again that had not ended, and no other") {
  TrialsRig rig("{ name = \"fast\", parallel = {} }, { name = \"endless\", parallel = {}, micro_batch_size = 4 }",
                "at_once = 1\n");
  std::int64_t epoch = 0;
  const Deadline deadline(rig.clock, 60'000);
  const auto tick_until = [&](const std::function<bool(const RunStatus&)>& reached) {
    for (;;) {
      const auto outcome = tick(rig.run, epoch, rig.options(), rig.clock, rig.log);
      REQUIRE_MESSAGE(outcome.ok(), (outcome.ok() ? "" : outcome.error().message()));
      if (reached(*read_run_status(rig.run))) return;
      REQUIRE_FALSE(deadline.passed());
      rig.clock.sleep_ms(10);
    }
  };
  tick_until([&](const RunStatus&) { return rig.begun("endless") == 1; });
  REQUIRE(request(rig.run, "cancel", Value::make_table(), rig.clock).ok());
  tick_until([](const RunStatus& status) { return status.state == RunState::cancelled; });
  CHECK(rig.begun("fast") == 1);
  CHECK_FALSE(file_exists(rig.run + "/stages/layout/out"));
  REQUIRE(request(rig.run, "resume", Value::make_table(), rig.clock).ok());
  tick_until([&](const RunStatus&) { return rig.begun("endless") == 2; });
  CHECK(rig.begun("fast") == 1);
  REQUIRE(request(rig.run, "cancel", Value::make_table(), rig.clock).ok());
  tick_until([](const RunStatus& status) { return status.state == RunState::cancelled; });
}

TEST_CASE("without any candidate that can be measured the stage fails once, and says what became of each") {
  TrialsRig rig("{ name = \"crash\", parallel = {} }, { name = \"memory\", parallel = {}, micro_batch_size = 4 }");
  const std::atomic<bool> stop{false};
  const auto status = drive(rig.run, rig.options(), rig.clock, rig.log, stop, nullptr, nullptr);
  REQUIRE(status.ok());
  CHECK(status->state == RunState::failed);
  CHECK(status->find("layout")->attempts == 1);
  const std::string cause = status->find("layout")->cause;
  CHECK_MESSAGE(cause.find("no candidate could be measured; crash: crash (") != std::string::npos, cause);
  CHECK_MESSAGE(cause.find("memory: out of memory (") != std::string::npos, cause);
  CHECK(status->find("pretrain")->state == StageState::skipped);
}

TEST_CASE("a search gives the candidates once; without one the stage says so") {
  TrialsRig rig;
  TickOptions options = rig.options();
  int asked = 0;
  options.search = [&](const RunPlan&, const PlannedStage& tune, const PlannedStage& target,
                       const SiteConfig&) -> Result<std::vector<Trial>> {
    ++asked;
    CHECK(tune.id() == "layout");
    CHECK(target.settings.get_integer("global_batch_size") == 32);
    Trial found;
    found.name = "fast";
    found.steps = 12;
    found.settings = *parse_toml("parallel = {}\nmicro_batch_size = 4\n", "");
    found.predicted_seconds = 0.02;
    found.predicted_sigma = 0.1;
    return std::vector<Trial>{found};
  };
  const std::atomic<bool> stop{false};
  const auto status = drive(rig.run, options, rig.clock, rig.log, stop, nullptr, nullptr);
  REQUIRE(status.ok());
  CHECK(status->state == RunState::succeeded);
  CHECK(asked == 1);
  CHECK(status->find("layout")->figures.get_number("predicted_seconds") == doctest::Approx(0.02));

  TrialsRig blind;
  const auto refused = drive(blind.run, blind.options(), blind.clock, blind.log, stop, nullptr, nullptr);
  REQUIRE(refused.ok());
  CHECK(refused->find("layout")->cause.find("no candidates given and this version has no search") != std::string::npos);
}

}  // namespace longhaul
