// A search stage with real leads; in the engine's place stands a script that trains by a formula, from the newest
// checkpoint that it finds, and writes down what it did.
#include "orchestrator/trials/search_stages.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <set>

#include "autotune/hyper/hyper_artifact.h"
#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/runs/saved_state.h"
#include "orchestrator/workflow/planner.h"
#include "orchestrator/workflow/trials/trial_stage.h"
#include "tests/support/plain_files.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

// The loss is least at a rate of 0.003. Rates end as they say: 0.5 diverges, 0.25 crashes, 0.0031 and 0.0032 do in the
// second rung, 0.125 has no figure; 0.0625 loses its lead once, after two steps.
constexpr const char* formula_engine = R"sh(#!/bin/bash
set -eu
for word in "$@"; do
  case "${previous:-}" in --launch) launch=$word;; --task) task=$word;; esac
  previous=$word
done
value() { sed -n "s/^$1 = \"\(.*\)\"/\1/p" "$launch"; }
number() { sed -n "s/^$1 = \(.*\)/\1/p" "$task" | head -1; }
events=$(value events_path) out=$(value output_dir) state=$(value state_dir)
name=$(basename "$(dirname "$state")") steps=$(number steps) lr=$(number lr) from=0
mkdir -p "$state/checkpoints"
for folder in "$state"/checkpoints/step-*; do
  [ -e "$folder/checkpoint.json" ] && from=$((10#${folder##*-}))
done
save() {
  folder=$state/checkpoints/$(printf 'step-%08d' "$1")
  mkdir -p "$folder" && echo '{}' > "$folder/checkpoint.json"
}
echo "$name $from $steps" >> "$SEARCH_EFFECTS"
for ((step = from + 1; step <= steps; ++step)); do
  echo "{\"t\": \"\", \"ms\": $step, \"kind\": \"metric\", \"rank\": 0, \"step\": $step, \"loss\": 5.5, \"tokens_per_s\": 1000}" >> "$events"
  if [ "$lr" = 0.25 ] && [ $step = 3 ]; then kill -SEGV $$; fi
  case "$lr" in 0.0031 | 0.0032) [ $step = 6 ] && kill -SEGV $$;; esac
  if [ "$lr" = 0.0625 ] && [ $step = 2 ] && [ ! -e "$SEARCH_EFFECTS.lost" ]; then
    save 2; touch "$SEARCH_EFFECTS.lost"; kill -KILL $PPID; sleep 1
  fi
  if [ -n "${SEARCH_SLOW:-}" ]; then sleep 0.05; fi
done
save "$steps"
loss=$(awk -v lr="$lr" -v steps="$steps" 'BEGIN { x = log(lr / 0.003); printf "%.6f", 2 + x * x / 10 + 10 / steps }')
[ "$lr" = 0.5 ] && loss=NaN
figure="\"heldout_loss\": $loss, "
[ "$lr" = 0.125 ] && figure=""
[ "$loss" = NaN ] && figure='"heldout_loss": null, '
echo "{\"figures\": {$figure\"steps\": $steps}}" > "$out/artifact.json"
)sh";

constexpr const char* search_workflow = R"([workflow]
name = "w"
[stage.pretrain]
kind = "pretrain"
inputs = { tokens = "tokens" }
steps = 16
threads = 1
sequence_length = 64
micro_batch_size = 2
global_batch_size = 32
optimizer = { warmup_steps = 2, lr_schedule = "constant" }
model = { hidden_size = 32, num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2, max_position_embeddings = 64 }
hyperparameters = "@search"
[stage.search]
kind = "search"
for = "pretrain"
min_steps = 4
)";

// A run with a search stage, before its first round.
struct SearchRig {
  testing::Scratch scratch;
  SystemClock clock;
  Logger log{"test", "", LogLevel::error};
  RunPlan plan;
  std::string run;
  std::string effects = scratch.file("effects");

  explicit SearchRig(const std::string& rates, const std::string& keys = {}) {
    ::setenv("SEARCH_EFFECTS", effects.c_str(), 1);
    ::unsetenv("SEARCH_SLOW");
    const std::string bin = scratch.file("bin"), real = parent_path(own_program_path());
    REQUIRE(make_directories(bin).ok());
    REQUIRE(make_directories(scratch.file("tokens")).ok());
    REQUIRE(write_file_atomic(scratch.file("tokens/train.bin"), "tokens").ok());
    REQUIRE(write_file_atomic(bin + "/longhaul-engine", formula_engine, 0755).ok());
    REQUIRE(::symlink((real + "/longhaul-worker").c_str(), (bin + "/longhaul-worker").c_str()) == 0);
    WorkflowRequest request;
    const std::string eta = keys.find("eta") == std::string::npos ? "eta = 2\n" : "";
    request.text = search_workflow + eta + keys + "[stage.search.space.\"optimizer.lr\"]\nvalues = [" + rates + "]\n";
    request.path = "w.toml";
    request.folder = scratch.path();
    request.site.set("name", "local");
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
  RunStatus drive_to_end() {
    const std::atomic<bool> stop{false};
    auto status = drive(run, options(), clock, log, stop, nullptr, nullptr);
    REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message()));
    return *std::move(status);
  }
  // One controller for every round, as after a kill, until `reached`.
  void tick_until(const std::function<bool(const RunStatus&)>& reached) {
    const Deadline deadline(clock, 60'000);
    for (;;) {
      std::int64_t epoch = 0;
      const auto outcome = tick(run, epoch, options(), clock, log);
      REQUIRE_MESSAGE(outcome.ok(), (outcome.ok() ? "" : outcome.error().message()));
      if (reached(*read_run_status(run))) return;
      REQUIRE_FALSE(deadline.passed());
      clock.sleep_ms(10);
    }
  }
  // "t0003 4 8": trained from step 4 to step 8; of one trial, or of all.
  std::vector<std::string> trained(const std::string& trial = "t") const {
    std::vector<std::string> lines;
    if (const auto text = read_file(effects); text.ok())
      for (const std::string& line : split(*text, '\n'))
        if (starts_with(line, trial)) lines.push_back(line);
    return lines;
  }
  // "1 t0003": the runs of rungs in which a trial has a whole checkpoint.
  std::set<std::string> saved() const {
    std::set<std::string> found;
    for (int round = 1; file_exists(round_folder(round)); ++round)
      for (int trial = 0; trial < 16; ++trial)
        if (const std::string name = hyper::trial_name(trial);
            !checkpoint_steps(checkpoints_folder(round_folder(round), "trial/" + name))->empty())
          found.insert(format("{} {}", round, name));
    return found;
  }
  std::string round_folder(int round) const { return format("{}/rounds/{}", folder(), round); }
  std::string folder() const { return run + "/stages/search"; }
  hyper::HyperArtifact found() const {
    const auto read = hyper::read_hyper_artifact(folder() + "/out");
    REQUIRE_MESSAGE(read.ok(), (read.ok() ? "" : read.error().message()));
    return *read;
  }
  TickOptions options() const {
    TickOptions options;
    options.cpu_slots = 2;
    return options;
  }
};

// Every step of every trial once: what a start does not begin with was trained by the one before.
void check_nothing_twice(const SearchRig& rig) {
  std::map<std::string, std::int64_t> reached;
  for (const std::string& line : rig.trained()) {
    const auto words = split(line, ' ');
    CHECK_MESSAGE(std::stoll(words[1]) == reached[words[0]], line);
    reached[words[0]] = std::stoll(words[2]);
  }
}

std::string why_of(const RunStatus& status, const std::string& rate) {
  for (const TrialStatus& trial : status.find("search")->trials)
    if (trial.settings == "optimizer.lr = " + rate) return trial.outcome + "; " + trial.why;
  return {};
}

constexpr const char* four_rates = "0.0001, 0.001, 0.004, 0.03";

}  // namespace

TEST_CASE("rungs find the best rate, the stage trains with it, and a second run takes both from the first") {
  SearchRig rig(four_rates);
  const RunStatus status = rig.drive_to_end();
  CHECK(status.state == RunState::succeeded);
  check_nothing_twice(rig);
  CHECK(rig.trained().size() == 4 + 2 + 2);
  const hyper::HyperArtifact found = rig.found();
  CHECK(found.settings.find("optimizer")->get_number("lr") == 0.004);
  CHECK(found.whole);
  CHECK(found.trained_steps == 4 * 4 + 2 * 4 + 2 * 8);
  CHECK(found.set_aside.empty());
  const auto task = read_task(rig.run + "/stages/pretrain/task.toml");
  REQUIRE(task.ok());
  CHECK(task->settings.find("optimizer")->get_number("lr") == 0.004);
  // The key is that of a stage into which somebody has pasted the rate.
  const auto frozen = read_frozen_run(rig.run);
  REQUIRE(frozen.ok());
  const auto pasted = with_found(*frozen->plan.find("pretrain"), found.settings);
  REQUIRE(pasted.ok());
  Task by_hand = *task;
  by_hand.settings = pasted->settings;
  CHECK(task_key(by_hand) == task->key);
  const StageStatus* search = status.find("search");
  REQUIRE(search->trials.size() == 4);
  CHECK(search->trials[0].why == "won");
  CHECK(search->trials[0].metric == "heldout_loss");
  CHECK(search->trials[3].why == "not among the best of rung 0");
  CHECK(search->figures.get_number("heldout_loss") == found.value);
  for (int round = 1; round <= 3; ++round)
    for (const hyper::TrialStanding& trial : found.trials) {
      const std::string stage = rig.folder() + format("/rounds/{}/stages/trial/{}", round, trial.name);
      CHECK_FALSE(file_exists(stage + "/state"));
      CHECK_FALSE(file_exists(stage + "/out"));
    }

  RunOrigin origin;
  origin.artifact_root = rig.scratch.file("artifacts");
  origin.programs_dir = rig.scratch.file("bin");
  const auto second = create_run(rig.scratch.file("runs"), rig.plan, origin, rig.clock);
  REQUIRE(second.ok());
  const std::atomic<bool> stop{false};
  const auto again = drive(*second, rig.options(), rig.clock, rig.log, stop, nullptr, nullptr);
  REQUIRE(again.ok());
  CHECK(again->find("search")->state == StageState::cached);
  CHECK(again->find("pretrain")->state == StageState::cached);
  CHECK(rig.trained().size() == 8);
}

TEST_CASE("controllers of a search that come and go at every round train nothing twice") {
  SearchRig rig(four_rates);
  rig.tick_until([](const RunStatus& status) { return status.state != RunState::running; });
  CHECK(read_run_status(rig.run)->state == RunState::succeeded);
  check_nothing_twice(rig);
  CHECK(rig.trained().size() == 8);
  CHECK(rig.found().settings.find("optimizer")->get_number("lr") == 0.004);
}

TEST_CASE("what diverges, crashes or has no figure is an outcome; what was lost goes on from its checkpoint") {
  SearchRig rig("0.001, 0.5, 0.25, 0.125, 0.0625", "finalists = 1\n");
  const RunStatus status = rig.drive_to_end();
  CHECK(status.state == RunState::succeeded);
  CHECK_MESSAGE(why_of(status, "0.5") == "diverged; diverged: heldout_loss is no number", why_of(status, "0.5"));
  CHECK_MESSAGE(starts_with(why_of(status, "0.25"), "crashed; crashed: "), why_of(status, "0.25"));
  CHECK_MESSAGE(why_of(status, "0.125").find("without the figure heldout_loss; it has steps") != std::string::npos,
                why_of(status, "0.125"));
  CHECK(rig.found().settings.find("optimizer")->get_number("lr") == 0.001);
  std::set<std::string> lost;
  for (const auto& line : rig.trained())
    if (ends_with(line, " 2 4")) lost.insert(line);
  CHECK_MESSAGE(lost.size() == 1, join(rig.trained(), ", "));
  int crashes = 0;
  for (const hyper::TrialStanding& trial : rig.found().trials) crashes += trial.end == hyper::RungEnd::crashed;
  CHECK(crashes == 2);
}

TEST_CASE("a search in which nothing has a metric fails once and says what became of its trials") {
  SearchRig rig("0.5, 0.25");
  const RunStatus status = rig.drive_to_end();
  CHECK(status.state == RunState::failed);
  CHECK(status.find("search")->attempts == 1);
  const std::string cause = status.find("search")->cause;
  CHECK_MESSAGE(cause.find("2 of 2 trials: 1 crashed, 1 diverged; none has a heldout_loss") != std::string::npos,
                cause);
  CHECK(status.find("pretrain")->state == StageState::skipped);
}

TEST_CASE("cancel ends the trials with the run; resume goes on with those that had not ended") {
  SearchRig rig(four_rates);
  ::setenv("SEARCH_SLOW", "1", 1);
  rig.tick_until([&](const RunStatus&) { return rig.trained().size() >= 5; });  // one of the second rung
  REQUIRE(request(rig.run, "cancel", Value::make_table(), rig.clock).ok());
  rig.tick_until([](const RunStatus& status) { return status.state == RunState::cancelled; });
  CHECK_FALSE(file_exists(rig.folder() + "/out"));
  ::unsetenv("SEARCH_SLOW");
  REQUIRE(request(rig.run, "resume", Value::make_table(), rig.clock).ok());
  CHECK(rig.drive_to_end().state == RunState::succeeded);
  int first_rung = 0;
  for (const std::string& line : rig.trained()) first_rung += ends_with(line, " 0 4");
  CHECK(first_rung == 4);
  CHECK(rig.found().settings.find("optimizer")->get_number("lr") == 0.004);
}

TEST_CASE("a damaged round is set aside by name and made again; a checkpoint that is gone is reported") {
  SearchRig rig(four_rates);
  ::setenv("SEARCH_SLOW", "1", 1);
  rig.tick_until([&](const RunStatus&) { return rig.trained().size() >= 5; });  // a job of the second rung
  ::unsetenv("SEARCH_SLOW");
  REQUIRE(write_file_atomic(rig.folder() + "/rounds/2/starts.json", "{\"starts\": [").ok());
  std::string gone;
  for (const std::string& line : rig.trained())
    if (ends_with(line, " 4 8")) gone = split(line, ' ')[0];
  REQUIRE(remove_tree(rig.folder() + "/rounds/1/stages/trial/" + gone + "/state").ok());
  const RunStatus status = rig.drive_to_end();
  CHECK(status.state == RunState::succeeded);
  const std::string aside = join(rig.found().set_aside, "\n");
  CHECK_MESSAGE(aside.find("round 2: ") != std::string::npos, aside);
  CHECK_MESSAGE(
      aside.find(gone + ": its checkpoint of step 4 is gone; rung 1 goes on from step 0") != std::string::npos, aside);
  CHECK(status.find("search")->set_aside == rig.found().set_aside);
  CHECK(rig.found().settings.find("optimizer")->get_number("lr") == 0.004);
}

TEST_CASE("trials that a rung has left behind give their checkpoints back, those that may go on keep their newest") {
  SearchRig rig(four_rates, "finalists = 1\n");
  ::setenv("SEARCH_SLOW", "1", 1);
  rig.tick_until([&](const RunStatus&) { return rig.trained().size() >= 4 + 2 + 1; });  // the finalist trains
  ::unsetenv("SEARCH_SLOW");
  std::set<std::string> kept;
  for (const std::string& line : rig.trained()) {
    const auto words = split(line, ' ');
    if (words[2] == "8") kept.insert("2 " + words[0]);
    if (words[2] == "16") kept.insert("3 " + words[0]);
  }
  CHECK(kept.size() == 3);  // one finalist, one in reserve for it
  const std::set<std::string> saved = rig.saved();
  CHECK_MESSAGE(saved == kept, join({saved.begin(), saved.end()}, ", "));
  // A controller that was killed while it removed one has left this.
  REQUIRE(make_directories(rig.round_folder(1) + "/.trash/0123/checkpoints").ok());
  rig.tick_until([](const RunStatus&) { return true; });
  CHECK_FALSE(file_exists(rig.round_folder(1) + "/.trash"));
  CHECK(rig.drive_to_end().state == RunState::succeeded);
  check_nothing_twice(rig);
  CHECK(rig.found().settings.find("optimizer")->get_number("lr") == 0.004);
  CHECK(rig.found().set_aside.empty());
  CHECK(rig.saved().empty());
}

TEST_CASE("one that was left behind trains again from its beginning where all before it fail, and that is reported") {
  SearchRig rig("0.0031, 0.0032, 0.01, 0.03", "finalists = 1\neta = 4\n");
  CHECK(rig.drive_to_end().state == RunState::succeeded);
  CHECK(rig.found().settings.find("optimizer")->get_number("lr") == 0.01);
  std::multiset<std::string> starts;  // of the last rung
  for (const std::string& line : rig.trained())
    if (ends_with(line, " 16")) starts.insert(split(line, ' ')[1]);
  CHECK(starts == std::multiset<std::string>{"0", "4", "4"});  // the second was in reserve
  const std::string aside = join(rig.found().set_aside, "\n");
  CHECK_MESSAGE(aside.find("its checkpoint of step 4 is gone; rung 1 goes on from step 0") != std::string::npos, aside);
}

TEST_CASE("asha promotes trials alone, in as many places as there are cores for") {
  SearchRig rig("0.0001, 0.0003, 0.001, 0.004, 0.01, 0.03", "method = \"asha\"\nat_once = 3\n");
  CHECK(rig.drive_to_end().state == RunState::succeeded);
  check_nothing_twice(rig);
  CHECK(rig.found().settings.find("optimizer")->get_number("lr") == 0.004);
  const auto rounds = list_directory(rig.folder() + "/rounds");
  REQUIRE(rounds.ok());
  CHECK(rounds->size() > 4);
  const auto first = read_file(rig.folder() + "/rounds/1/starts.json");
  REQUIRE(first.ok());
  CHECK(first->find("t0001") != std::string::npos);
  CHECK(first->find("t0002") == std::string::npos);  // two cores: two places, though three were asked for
}

}  // namespace longhaul
