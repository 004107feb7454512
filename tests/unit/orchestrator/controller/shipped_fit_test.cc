// What the project ships fits where it says that it can run: every workflow and recipe names, in its head, commands
// with their sites, and each of them is planned here, without a scheduler. Who does not fit is refused with what would.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "base/files.h"
#include "base/text.h"
#include "orchestrator/cli/load_workflow.h"
#include "orchestrator/controller/device/stage_device.h"
#include "orchestrator/controller/fit_verdict.h"
#include "orchestrator/controller/job_plan.h"
#include "orchestrator/controller/plan_forecasts.h"
#include "orchestrator/workflow/planner.h"

namespace longhaul {
namespace {

const std::string source = LONGHAUL_SOURCE_DIR;

// Recipes are real; raw inputs are taken to exist.
class FitFiles final : public FileView {
 public:
  Result<std::string> read(const std::string& path) const override { return read_file(path); }
  Result<std::vector<std::string>> expand(const std::string& pattern) const override {
    return std::vector<std::string>{pattern};
  }
};

struct NamedCommand {
  std::string workflow;  // "workflows/x.toml"
  std::string site = "local";
  std::vector<std::string> sets;
};

// As a shell splits them, single quotes included.
std::vector<std::string> shell_words_in(const std::string& line) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '\'')
      quoted = !quoted;
    else if (c == ' ' && !quoted)
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

// `longhaul plan WORKFLOW --site SITE --set KEY=VALUE` in a comment; values may stand in single quotes.
std::vector<NamedCommand> commands_in_head(const std::string& path) {
  std::vector<NamedCommand> commands;
  const std::string text = read_file(path).value();
  for (const std::string& line : split(text, '\n')) {
    if (!starts_with(line, "#")) break;
    const std::vector<std::string> words = shell_words_in(line);
    const auto named = std::find(words.begin(), words.end(), "longhaul");
    if (words.end() - named < 3 || (named[1] != "plan" && named[1] != "run" && named[1] != "submit")) continue;
    if (!starts_with(named[2], "workflows/") || !ends_with(named[2], ".toml")) continue;
    NamedCommand command;
    command.workflow = named[2];
    for (auto word = named + 3; word + 1 < words.end(); ++word) {
      if (*word == "--site") command.site = word[1];
      if (*word == "--set") command.sets.push_back(word[1]);
    }
    commands.push_back(std::move(command));
  }
  return commands;
}

struct FitOutcome {
  std::string problems;  // "0 errors"
  int forecasts = 0;
};

FitOutcome outcome_at(const std::string& text, const std::string& path, const std::string& site_name,
                      const std::vector<std::string>& sets) {
  static const TimeConstants constants = read_time_constants(source + "/autotune/constants.toml").value();
  std::vector<std::string> of_workflow;
  const auto of_site = site_sets(sets, &of_workflow);
  auto site = load_site(site_name, {source + "/site-configs"}, of_site);
  REQUIRE_MESSAGE(site.ok(), site.error().message());
  WorkflowRequest request;
  request.text = text;
  request.path = path;
  request.folder = parent_path(path);
  request.site = site->values;
  request.sets = of_workflow;
  request.can_search_layouts = true;
  request.recipe_folders = {source + "/workflows/recipes"};
  WorkflowOutcome planned = plan_workflow(request, FitFiles());
  REQUIRE_MESSAGE(planned.diagnostics.empty(), planned.diagnostics.render(""));
  Diagnostics problems;
  EngineDevices engine;
  engine.build = [] { return EngineDevices::Build{EngineCuda::built_in, ""}; };
  engine.host_has_driver = [] { return false; };
  engine.no_gpu_here = [](int, bool) { return std::string("this host has none"); };
  std::vector<std::string> warnings;
  decide_devices(*site, engine, false, planned.plan, problems, warnings);
  std::vector<JobPlan> jobs;
  if (site->config.is_slurm()) jobs = plan_jobs(*site, planned.plan, problems);
  FitOutcome outcome;
  const auto forecasts = plan_forecasts(planned.plan, site->config, jobs, {constants, {}});
  for (const TrainingForecast& f : forecasts) {
    CHECK_MESSAGE(f.problem.empty(), f.problem);
    ++outcome.forecasts;
  }
  check_forecasts_fit(planned.plan, forecasts, problems);
  outcome.problems = problems.render("");
  return outcome;
}

}  // namespace

TEST_CASE("every shipped workflow and every recipe fits at the sites that its head names") {
  std::set<std::string> recipes_used, sites;
  int forecasts = 0;
  for (const char* folder : {"workflows", "workflows/examples", "workflows/examples/pytorch"}) {
    const std::vector<std::string> names = list_directory(join_path(source, folder)).value();
    for (const std::string& name : names) {
      if (!ends_with(name, ".toml")) continue;
      const std::string path = join_path(join_path(source, folder), name), text = read_file(path).value();
      std::vector<NamedCommand> commands = commands_in_head(path);
      if (commands.empty()) commands.emplace_back();
      for (const NamedCommand& command : commands) {
        CAPTURE(path);
        CAPTURE(command.site);
        CHECK((command.workflow.empty() || join_path(source, command.workflow) == path));
        const FitOutcome outcome = outcome_at(text, path, command.site, command.sets);
        CHECK(outcome.problems == "0 errors");
        forecasts += outcome.forecasts;
        sites.insert(command.site);
      }
      for (const std::string& line : split(text, '\n'))
        if (starts_with(line, "recipe = \"")) recipes_used.insert(line.substr(10, line.find('"', 10) - 10));
    }
  }
  const std::vector<std::string> recipes = list_directory(source + "/workflows/recipes").value();
  for (const std::string& name : recipes) {
    CAPTURE(name);
    CHECK(recipes_used.contains(name.substr(0, name.size() - 5)));  // so it has been planned above
  }
  CHECK(forecasts >= 6);
  CHECK(sites.size() >= 4);
}

TEST_CASE("the guide's example for a cluster fits at the site that it is written for") {
  const std::string guide = read_file(source + "/docs/workflows.md").value();
  const std::size_t begin = guide.find("[workflow]\nname = \"jobs\""), end = guide.find("```", begin);
  REQUIRE(end != std::string::npos);
  const FitOutcome outcome = outcome_at(guide.substr(begin, end - begin), "guide.toml", "leonardo-booster",
                                        {"site.account=\"EUHPC_X01\"", "stage.pretrain.model.vocab_size=128256"});
  CHECK(outcome.problems == "0 errors");
  CHECK(outcome.forecasts == 1);
}

TEST_CASE("a training that does not fit is an error at its stage, with the keys of a layout that fits") {
  const std::string stage =
      "[workflow]\nname = \"w\"\n[stage.pretrain]\nkind = \"pretrain\"\ninputs = { tokens = \"tokens\" }\n"
      "recipe = \"llama3-8b\"\nmodel = { vocab_size = 128256 }\nnodes = 64\nranks = 256\nglobal_batch_size = 1024\n"
      "steps = 1000\n";
  const std::vector<std::string> account = {"site.account=\"a-x01\""};
  const std::string problems = outcome_at(stage, "w.toml", "alps-clariden", account).problems;
  CAPTURE(problems);
  CHECK(starts_with(problems, "w.toml:3:"));
  CHECK(problems.find("stage.pretrain does not fit: a rank needs ") != std::string::npos);
  CHECK(problems.find("--ignore-memory goes on all the same") != std::string::npos);
  // What it proposes, pasted in, fits.
  const std::string before = "the fastest layout that fits: ";
  const std::size_t begin = problems.find(before), end = problems.find(" (", begin);
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  std::string keys = problems.substr(begin + before.size(), end - begin - before.size());
  for (const char* key : {"micro_batch_size = ", "pipeline = ", "recompute = ", "optimizer = "})
    keys = replace_all(keys, std::string(", ") + key, std::string("\n") + key);
  CAPTURE(keys);
  CHECK(outcome_at(stage + keys + "\n", "w.toml", "alps-clariden", account).problems == "0 errors");
}

TEST_CASE("what nobody can predict, or a tune stage lays out, is not judged") {
  RunPlan plan;
  PlannedStage stage;
  stage.stage = "pretrain", stage.kind = "pretrain", stage.settings = Value::make_table();
  plan.stages = {stage};
  TrainingForecast f;
  f.stage = "pretrain", f.memory = 2e9, f.memory_limit = 1e9;
  const auto judged = [&] {
    Diagnostics problems;
    check_forecasts_fit(plan, {f}, problems);
    return problems.size();
  };
  CHECK(judged() == 1);
  f.problem = "a model that nobody knows";
  CHECK(judged() == 0);
  f.problem.clear();
  plan.stages[0].layout_from = "layout";
  CHECK(judged() == 0);
  plan.stages[0].layout_from.clear();
  f.memory = 1e9;
  CHECK(judged() == 0);
}

}  // namespace longhaul
