// What the project ships fits where it says that it can run: every workflow and recipe names, in its head, commands
// with their sites, and each of them is planned here, without a scheduler. Who does not fit is refused with what would.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "tests/unit/orchestrator/fit/fitted_workflow.h"

namespace longhaul {
namespace {

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

FitOutcome outcome_at(const std::string& text, const std::string& path, const std::string& site,
                      const std::vector<std::string>& sets) {
  const FittedWorkflow fitted(text, path, site, sets);
  for (const TrainingForecast& f : fitted.forecasts) {
    const bool of_rollouts =
        f.problem.find("predicted for grpo, rloo and reinforce++") != std::string::npos;   // said by name
    const bool of_rewards = f.problem.find("trains a reward model") != std::string::npos;  // the same
    CHECK_MESSAGE((f.problem.empty() || of_rollouts || of_rewards), f.problem);
  }
  Diagnostics all = fitted.of_jobs;
  all.merge(fitted.report().refused());
  return {all.render(""), static_cast<int>(fitted.forecasts.size())};
}

}  // namespace

TEST_CASE("every shipped workflow and every recipe fits at the sites that its head names") {
  std::set<std::string> recipes_used, sites;
  int forecasts = 0;
  for (const char* folder :
       {"workflows", "workflows/examples", "workflows/examples/pytorch", "workflows/examples/existing-scripts"}) {
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
  CHECK(problems.find("--allow memory goes on all the same") != std::string::npos);
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
  FittedWorkflow fitted(
      "[workflow]\nname = \"w\"\n[stage.pretrain]\nkind = \"pretrain\"\ninputs = { tokens = \"tokens\" }\n"
      "recipe = \"llama3-8b\"\nmodel = { vocab_size = 128256 }\nnodes = 64\nranks = 256\nglobal_batch_size = 1024\n",
      "w.toml", "alps-clariden", {"site.account=\"a-x01\""});
  TrainingForecast& f = fitted.forecasts.front();
  PlannedStage& stage = fitted.planned.plan.stages.front();
  const auto refused = [&] { return fitted.report().refused().size(); };
  CHECK(refused() == 1);
  f.problem = "a model that nobody knows";
  CHECK(refused() == 0);
  f.problem.clear();
  stage.layout_from = "layout";
  CHECK(refused() == 0);
  stage.layout_from.clear();
  f.memory = f.memory_limit;  // by a forecast that is right within a few percent
  CHECK(refused() == 0);
  CHECK(fitted.report().warnings().size() == 1);
  f.memory = 0.9 * f.memory_limit;
  CHECK(fitted.report().nothing_found());
}

}  // namespace longhaul
