// Values that other people give reach a shell as data, wherever a workflow's text becomes a script.
#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "contracts/settings/stages/command.h"
#include "orchestrator/workflow/planner.h"
#include "tests/support/plain_files.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

class OnlyRecipe final : public testing::PlainFiles {
 public:
  Result<std::string> read(const std::string& path) const override {
    if (path == "/recipes/says.toml") return std::string("kind = 'command'\nscript = 'printf %s \"${params.x}\"'\n");
    return make_error(ErrorCode::not_found, path + " does not exist");
  }
};

WorkflowOutcome outcome_of(const std::string& stages, const std::string& value = "1") {
  WorkflowRequest request;
  request.text = "[workflow]\nname = \"w\"\n[params]\nx = 1\n" + stages;  // stages start at line 5
  request.path = "w.toml";
  request.folder = "/flow";
  request.sets = {"params.x=" + value};
  request.site.set("name", "h'e$re");
  request.recipe_folders = {"/recipes"};
  return plan_workflow(request, OnlyRecipe());
}

// As `--set` takes text.
std::string quoted(const std::string& text) {
  Value table = Value::make_table();
  table.set("x", text);
  return trim(to_toml(table)).substr(std::string("x = ").size());
}

std::string problems_of(const std::string& script, const std::string& value) {
  return outcome_of("[stage.a]\nkind = 'command'\nscript = '''" + script + "'''\n", value).diagnostics.render("");
}

// What a rank prints that is started as the worker starts it.
std::string said_by(const CommandSettings& settings, const std::string& folder) {
  SpawnSpec spec;
  spec.argv = settings.argv;
  if (!settings.script.empty()) spec.argv = {"bash", "-euo", "pipefail", "-c", settings.script};
  for (const auto& [name, value] : settings.environment) spec.environment.emplace_back(name, value);
  spec.working_directory = folder;
  const auto done = run_captured(std::move(spec), 20'000);
  REQUIRE(done.ok());
  CAPTURE(done->err);
  CHECK(done->status.success());
  return done->out;
}

const std::vector<std::string> hostile = {
    "$HOME",          "`touch ran`", "$(touch ran)", "\"; touch ran; \"",    "'; touch ran; '",
    "a\ntouch ran\n", "*",           "${x:=touch}",  "\\\"$(touch ran)\\\\", "it's  two  blanks",
};

TEST_CASE("whatever a parameter holds, a script gets it as data and nothing of it runs") {
  const std::string ways[] = {
      "script = '''printf %s \"${params.x}\"'''\n",
      "argv = ['bash', '-c', '''printf %s \"${params.x}\"''']\n",
      "argv = ['env', 'A=1', 'sh', '-eu', '-c', '''printf %s \"${params.x}\"''']\n",
      "argv = ['bash', '-c', 'printf %s \"$1\"', '-', '${params.x}']\n",
      "environment = { A = '${params.x}' }\nscript = '''printf %s \"$A\"'''\n",
      "script = '''cat <<EOF | head -c -1\n${params.x}\nEOF\n'''\n",
  };
  for (const std::string& way : ways)
    for (const std::string& value : hostile) {
      const testing::Scratch scratch;
      CAPTURE(way);
      CAPTURE(value);
      const auto outcome = outcome_of("[stage.a]\nkind = 'command'\n" + way, quoted(replace_all(value, "${", "$${")));
      REQUIRE_MESSAGE(outcome.diagnostics.empty(), outcome.diagnostics.render(""));
      const auto settings = command_fields().parse(outcome.plan.stages[0].settings, "settings");
      REQUIRE(settings.ok());
      CHECK(said_by(*settings, scratch.path()) == value);
      CHECK_FALSE(file_exists(scratch.file("ran")));
    }
}

TEST_CASE("steps, matrices, recipes and sites hand values over in the same way") {
  const auto plan_of = [](const std::string& stages) {
    const auto outcome = outcome_of(stages, "'$(touch ran)'");
    REQUIRE_MESSAGE(outcome.diagnostics.empty(), outcome.diagnostics.render(""));
    return outcome.plan;
  };
  const auto scripts = [](const RunPlan& plan) { return to_toml(plan.stages.back().settings); };
  const std::string pasted = "echo $(touch ran)";
  const RunPlan step = plan_of("[stage.a]\nkind = 'command'\n[stage.a.step.one]\nscript = 'echo ${params.x}'\n");
  CHECK(scripts(step).find("echo ${LONGHAUL_PARAMS_x}") != std::string::npos);
  CHECK(scripts(step).find(pasted) == std::string::npos);
  const RunPlan matrix = plan_of("[stage.a]\nkind = 'command'\nmatrix = { script = ['true', 'echo ${params.x}'] }\n");
  CHECK(scripts(matrix).find("echo ${LONGHAUL_PARAMS_x}") != std::string::npos);
  const RunPlan recipe = plan_of("[stage.a]\nrecipe = 'says'\n");
  CHECK(scripts(recipe).find("\\\"${LONGHAUL_PARAMS_x}\\\"") != std::string::npos);
  const RunPlan site = plan_of("[stage.a]\nkind = 'command'\nscript = 'echo \"${site.name}\"'\n");
  CHECK(site.stages[0].settings.find("environment")->get_string("LONGHAUL_SITE_name") == "h'e$re");
  const RunPlan whole = plan_of("[stage.a]\nkind = 'command'\nscript = '${params.x}'\n");
  CHECK(whole.stages[0].settings.get_string("script") == "${LONGHAUL_PARAMS_x}");
}

TEST_CASE("two parameters whose names look alike to a shell stay two") {
  const auto outcome = outcome_of(
      "'a-b' = 2\na_b = 3\n[stage.a]\nkind = 'command'\n"
      "script = 'echo ${params.a-b} ${params.a_b}'\n");
  REQUIRE_MESSAGE(outcome.diagnostics.empty(), outcome.diagnostics.render(""));
  const Value& environment = *outcome.plan.stages[0].settings.find("environment");
  REQUIRE(environment.size() == 2);
  CHECK(environment.get_string("LONGHAUL_PARAMS_a_b") == "3");
}

TEST_CASE("where a shell would not replace a value, or would calculate with text, it is refused with the remedy") {
  CHECK(problems_of("echo '${params.x}'", "2") ==
        "w.toml:7:10: error: ${params.x} stands in single quotes, where the shell replaces nothing; use double quotes, "
        "or say environment = { NAME = \"${params.x}\" } and write \"$NAME\"\n1 error");
  CHECK(problems_of("echo $((${params.x} + 1))", "2") == "0 errors");
  CHECK(problems_of("echo $((${params.x} + 1))", "'a[$(touch ran)]'") ==
        "w.toml:7:10: error: ${params.x} is text, and calculating with it can run a command; let it be a number\n"
        "1 error");
  CHECK(problems_of("cat <<'EOF'\n${params.x}\nEOF", "2").find("in single quotes") != std::string::npos);
  CHECK(problems_of("echo ${params.x}", "[1]").find("is array and cannot stand inside a text; hand it over as text") !=
        std::string::npos);
}

}  // namespace
}  // namespace longhaul
