// Several programs in one job: what the planner makes of them, and every problem at its place.
#include "orchestrator/workflow/command_steps.h"

#include <doctest/doctest.h>

#include "base/text/text.h"
#include "base/toml.h"
#include "contracts/settings/stages/command.h"
#include "contracts/tasks/task.h"
#include "orchestrator/render/plan/plan_text.h"
#include "orchestrator/workflow/planner.h"
#include "tests/support/plain_files.h"

namespace longhaul {
namespace {

WorkflowOutcome steps_outcome(const std::string& text, const std::vector<std::string>& sets = {}) {
  WorkflowRequest request;
  request.text = "[workflow]\nname = \"w\"\n" + text;  // stages start at line 3
  request.path = "w.toml";
  request.folder = "/flow";
  request.sets = sets;
  return plan_workflow(request, testing::PlainFiles());
}

std::string steps_problems(const std::string& text, const std::vector<std::string>& sets = {}) {
  return steps_outcome(text, sets).diagnostics.render("");
}

RunPlan steps_plan(const std::string& text, const std::vector<std::string>& sets = {}) {
  auto outcome = steps_outcome(text, sets);
  REQUIRE_MESSAGE(outcome.diagnostics.empty(), outcome.diagnostics.render(""));
  return outcome.plan;
}

const std::string rl = R"([stage.rl]
kind = "command"
environment = { SEED = "${params.seed}" }
[stage.rl.step.learner]
script = 'echo ${HOME} ${params.seed}'
ranks = 4
nodes = 2
[stage.rl.step.actor]
argv = ["serve", "${params.seed}"]
ranks = 3
nodes = 1
service = true
[params]
seed = "7"
)";

// A stage with these keys, and two steps with these.
std::string two_steps(const std::string& stage, const std::string& a, const std::string& b) {
  return "[stage.s]\nkind = \"command\"\n" + stage + "\n[stage.s.step.a]\n" + a + "\n[stage.s.step.b]\n" + b + "\n";
}

}  // namespace

TEST_CASE("steps in the order written; the job's size follows from them") {
  const RunPlan plan = steps_plan(rl);
  const PlannedStage& stage = plan.stages[0];
  CHECK(stage.common.nodes == 3);
  CHECK(stage.common.ranks == 7);
  const CommandSettings settings = command_fields().parse(stage.settings, "").value();
  REQUIRE(settings.steps.size() == 2);
  CHECK(settings.environment.at("SEED") == "7");
  CHECK(settings.steps[0].name == "learner");
  CHECK(settings.steps[0].script == "echo ${HOME} ${LONGHAUL_PARAMS_seed}");
  CHECK(settings.environment.at("LONGHAUL_PARAMS_seed") == "7");  // of the stage: its steps have it too
  CHECK(settings.steps[1].argv == std::vector<std::string>{"serve", "7"});
  CHECK(settings.steps[1].service);
  CHECK(steps_plan(rl, {"stage.rl.step.actor.ranks=6"}).stages[0].common.ranks == 10);
  const std::string shown = plan_text(plan, false);
  CHECK(shown.find("rl: 2 steps in one job\n  learner: 4 ranks on 2 nodes\n  actor: 3 ranks on 1 node, a service\n") !=
        std::string::npos);
  // As a run keeps it.
  const auto again = run_plan_from_value(parse_toml(to_toml(run_plan_to_value(plan)), "resolved.toml").value());
  REQUIRE_MESSAGE(again.ok(), again.error().message());
  CHECK(to_toml(run_plan_to_value(*again)) == to_toml(run_plan_to_value(plan)));
  CHECK(again->stages[0].common.nodes == 3);
}

TEST_CASE("steps without nodes share every node of the stage") {
  const RunPlan one = steps_plan(two_steps("", "script = 'x'\nranks = 3", "script = 'y'"));
  CHECK(one.stages[0].common.nodes == 1);
  CHECK(one.stages[0].common.ranks == 4);
  const RunPlan two = steps_plan(two_steps("nodes = 2", "script = 'x'\nranks = 2", "script = 'y'\nranks = 6"));
  CHECK(two.stages[0].common.nodes == 2);
}

TEST_CASE("a matrix may vary a step") {
  const RunPlan plan = steps_plan(two_steps("matrix = { \"step.a.ranks\" = [1, 2] }", "script = 'x'", "script = 'y'"));
  REQUIRE(plan.stages.size() == 2);
  CHECK(plan.stages[0].common.ranks == 2);
  CHECK(plan.stages[1].common.ranks == 3);
}

TEST_CASE("programs of steps count for the key, their sizes do not; one program keeps the key it had") {
  const auto key_of = [](const std::vector<std::string>& sets) {
    Task task;
    task.kind = "command";
    task.settings = steps_plan(rl, sets).stages[0].settings;
    return task_key(task);
  };
  const std::string key = key_of({});
  CHECK(key_of({"stage.rl.step.actor.ranks=6", "stage.rl.step.actor.threads=2"}) == key);
  CHECK(key_of({"stage.rl.step.actor.argv=[\"other\"]"}) != key);
  CHECK(key_of({"stage.rl.step.learner.service=true", "stage.rl.step.actor.service=false"}) != key);
  CHECK(!steps_plan("[stage.one]\nkind = \"command\"\nscript = 'x'\n").stages[0].settings.find("step"));
}

TEST_CASE("every problem of steps is reported at its place") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[stage.p]\nkind = \"curate\"\ninputs = { documents = \"x\" }\n[stage.p.step.a]\nscript = 'x'\n",
       "w.toml:6:1: error: stage.p.step: a curate stage is one program; only the kind 'command' has steps\n1 error"},
      {two_steps("script = 'z'", "script = 'x'", "script = 'y'"),
       "w.toml:5:10: error: stage.s has both script and steps; move it into [stage.s.step.NAME]\n1 error"},
      {two_steps("argv = [\"z\"]", "script = 'x'", "script = 'y'"),
       "w.toml:5:8: error: stage.s has both argv and steps"},
      {two_steps("ranks = 4", "script = 'x'", "script = 'y'"),
       "w.toml:5:9: error: stage.s.ranks is set beside steps; say it in each step\n1 error"},
      {two_steps("job = { ranks_per_node = 2 }", "script = 'x'", "script = 'y'"),
       "w.toml:5:26: error: stage.s.job.ranks_per_node is set beside steps"},
      {two_steps("nodes = 2", "script = 'x'\nnodes = 2\nranks = 2", "script = 'y'\nnodes = 1"),
       "w.toml:5:9: error: stage.s.nodes = 2, but its steps have 3 nodes of their own; remove it: it follows from the "
       "steps; or remove nodes from the steps: then they share all\n1 error"},
      {two_steps("", "script = 'x'\nnodes = 2\nranks = 3", "script = 'y'\nnodes = 1"),
       "w.toml:9:9: error: stage.s.step.a: 3 ranks cannot be shared evenly by 2 nodes; use ranks that are a multiple "
       "of "
       "nodes\n1 error"},
      {two_steps("nodes = 2", "script = 'x'", "script = 'y'\nranks = 2"),
       "w.toml:6:1: error: stage.s.step.a: 1 rank cannot be shared evenly by 2 nodes"},
      {two_steps("", "script = 'x'\nnodes = 1", "script = 'y'"),
       "w.toml:9:1: error: stage.s.step.b says no nodes, and other steps do"},
      {"[stage.s]\nkind = \"command\"\nstep = {}\n",
       "w.toml:5:8: error: stage.s has no steps; write [stage.s.step.NAME] for each, or remove step\n1 error"},
      {"[stage.s]\nkind = \"command\"\nstep = 3\n", "w.toml:5:8: error: stage.s.step is integer, expected a table"},
      {"[stage.s]\nkind = \"command\"\n[stage.s.step]\na = 3\n",
       "w.toml:6:5: error: stage.s.step.a is integer, expected a table; write [stage.s.step.a]"},
      {two_steps("", "script = 'x'\nservice = true", "script = 'y'\nservice = true"),
       "w.toml:8:11: error: stage.s: every step is a service, so the stage would never end"},
      {two_steps("", "ranks = 1", "script = 'y'"),
       "w.toml:6:1: error: stage.s.step.a says no argv and no script; give one of them\n1 error"},
      {two_steps("", "script = 'x'\nargv = [\"x\"]", "script = 'y'"),
       "w.toml:6:1: error: stage.s.step.a has both argv and script"},
      {two_steps("", "scrip = 'x'", "script = 'y'"),
       "w.toml:7:1: error: unknown key 'scrip' in [stage.s.step.a]; did you mean 'script'?"},
      {two_steps("", "script = 'x'\nranks = 0", "script = 'y'"),
       "w.toml:8:9: error: stage.s.step.a.ranks = 0 is out of"},
      {"[stage.s]\nkind = \"command\"\n[stage.s.step.\"../a\"]\nscript = 'x'\n",
       "w.toml:5:1: error: '../a' cannot name a step; use a letter, then up to 31 letters, digits, '-' and '_'\n1 "
       "error"},
      {"[stage.s]\nkind = \"command\"\n[stage.s.step.a-b]\nscript = 'x'\n[stage.s.step.A_b]\nscript = 'x'\n",
       "w.toml:7:1: error: stage.s.step: 'a-b' and 'A_b' would have the same variables, LONGHAUL_STEP_HOSTS_A_B"},
  };
  for (const auto& [text, says] : cases) {
    CAPTURE(text);
    const std::string reported = steps_problems(text);
    if (ends_with(says, "1 error"))
      CHECK(reported == says);
    else
      CHECK_MESSAGE(starts_with(reported, says), reported);
  }
}

}  // namespace longhaul
