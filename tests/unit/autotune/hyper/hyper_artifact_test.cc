// How a search stands, line by line, and what it publishes.
#include "autotune/hyper/hyper_artifact.h"

#include <doctest/doctest.h>

#include "base/text/text.h"
#include "base/toml.h"

namespace longhaul::hyper {
namespace {

HyperSearchSettings artifact_search() {
  HyperSearchSettings settings;
  settings.trials = 5;
  settings.eta = 2;
  settings.finalists = 1;
  settings.max_steps = 100;
  settings.min_steps = 25;
  HyperParameter rate;
  rate.name = "optimizer.lr";
  rate.min = 1e-4, rate.max = 1e-2, rate.scale = "log";
  settings.space = {rate};
  return settings;
}

Trial tried(int index, double rate, std::vector<RungResult> results) {
  Trial trial;
  trial.name = trial_name(index);
  trial.settings.set("optimizer.lr", rate);
  trial.results = std::move(results);
  return trial;
}

// Rungs of 25, 50 and 100 steps.
std::vector<Trial> artifact_history() {
  const RungEnd done = RungEnd::done;
  return {tried(0, 1e-3, {{0, done, 5.0, 25}, {1, done, 4.5, 25}, {2, done, 4.25, 50}}),
          tried(1, 2e-3, {{0, done, 4.9, 25}, {1, done, 4.75, 25}}), tried(2, 1e-4, {{0, done, 6.5, 25}}),
          tried(3, 9e-3, {{0, RungEnd::diverged, 0, 7}}), tried(4, 5e-3, {{0, RungEnd::out_of_memory, 0, 0}})};
}

std::map<std::string, std::string> artifact_reasons() {
  return {{"t0003", "its heldout_loss is no number"}, {"t0004", "needs 3 GiB\nof 2"}};
}

}  // namespace

TEST_CASE("trials stand by how far they came, and each says why it goes no farther") {
  const Halving search(artifact_search());
  REQUIRE(search.rungs() == 3);
  const auto standings = trial_standings(search, artifact_history(), artifact_reasons(), true);
  REQUIRE(standings.size() == 5);
  const std::vector<std::string> names = {"t0000", "t0001", "t0002", "t0003", "t0004"};
  const std::vector<std::string> verdicts = {"won", "not among the best of rung 1", "not among the best of rung 0",
                                             "diverged: its heldout_loss is no number",
                                             "out of memory: needs 3 GiB\nof 2"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    CHECK(standings[i].name == names[i]);
    CHECK(standings[i].verdict == verdicts[i]);
  }
  CHECK(standings[0].steps == 100);
  CHECK(standings[0].whole);
  CHECK(standings[1].steps == 50);
  CHECK(!standings[1].whole);
}

TEST_CASE("while a search goes on its trials wait, train, or are out") {
  const Halving search(artifact_search());
  auto history = artifact_history();
  history[0].results = {{0, RungEnd::done, 5.0, 25}, {1, RungEnd::running, 0, 0}};
  history[1].results.pop_back();
  auto standings = trial_standings(search, history, {}, false);
  CHECK(standings[0].verdict == "best so far");  // of rung 0: the other one is still on its way
  CHECK(standings[1].verdict == "not among the best of rung 0");
  CHECK(standings[2].verdict == "trains to step 50");
  history[0].results.pop_back();
  standings = trial_standings(search, history, {}, false);
  CHECK(standings[1].verdict == "waits");
}

TEST_CASE("the second of two whole trainings says how far behind it is") {
  HyperSearchSettings settings = artifact_search();
  auto history = artifact_history();
  history[1].results.push_back({2, RungEnd::done, 4.335, 50});
  const auto standings = trial_standings(Halving(settings), history, {}, true);
  CHECK(standings[0].verdict == "won");
  CHECK(standings[1].verdict == "2 % behind the best");
  settings.mode = "max";
  const auto largest = trial_standings(Halving(settings), history, {}, true);
  CHECK(largest[0].name == "t0001");
  CHECK(largest[0].verdict == "won");
}

TEST_CASE("what a search publishes reads back, can be pasted, and holds every trial") {
  const Halving search(artifact_search());
  const auto history = artifact_history();
  HyperArtifact made =
      make_hyper_artifact("pretrain", search, history, trial_standings(search, history, artifact_reasons(), true),
                          *parse_toml("optimizer = { lr = 0.001 }\ndeterministic = true\n", "x"));
  made.node_hours = 1.5;
  made.set_aside = {"round 2: damaged"};
  CHECK(made.winner == "t0000");
  CHECK(made.value == 4.25);
  CHECK(made.steps == 100);
  CHECK(made.trained_steps == 25 * 5 + 50 + 7);
  CHECK(made.share_of_grid == doctest::Approx(182.0 / 500));
  const std::string text = hyper_artifact_text(made);
  CHECK(text.find("# Hyperparameters of stage pretrain: t0000 has the best heldout_loss, 4.25 after 100 steps.\n") ==
        0);
  CHECK(text.find("\noptimizer.lr = 0.001\ndeterministic = true\n") != std::string::npos);
  CHECK(text.find("#   t0004  optimizer.lr = 0.005: out of memory: needs 3 GiB of 2\n") != std::string::npos);
  CHECK(text.find("#   t0001  optimizer.lr = 0.002: heldout_loss 4.75 after 50 steps, not among") != std::string::npos);
  CHECK(text.find("# set aside: round 2: damaged\n") != std::string::npos);
  const auto read = hyper_artifact_from_text(text, "hyperparameters.toml");
  REQUIRE_MESSAGE(read.ok(), (read.ok() ? "" : read.error().message()));
  CHECK(read->settings == made.settings);
  CHECK(read->trials == made.trials);
  CHECK(hyper_artifact_text(*read) == text);
  const Value figures = hyper_figures(made);
  CHECK(figures.get_number("heldout_loss") == 4.25);
  CHECK(figures.get_integer("trials") == 5);
  CHECK(figures.get_number("node_hours") == 1.5);
}

TEST_CASE("a found rate keeps all of its digits") {
  const Halving search(artifact_search());
  const auto history = artifact_history();
  const double rate = 0.1 / 3 / 7;
  Value settings;
  settings.set("optimizer", Value::make_table()).set("lr", rate);
  const HyperArtifact made = make_hyper_artifact("p", search, history, {}, settings);
  const auto read = hyper_artifact_from_text(hyper_artifact_text(made), "x");
  REQUIRE(read.ok());
  CHECK(read->settings.find("optimizer")->get_number("lr") == rate);
}

TEST_CASE("what is no result of a search is refused with the reason") {
  const Halving search(artifact_search());
  const auto history = artifact_history();
  const std::string good =
      hyper_artifact_text(make_hyper_artifact("p", search, history, trial_standings(search, history, {}, true),
                                              *parse_toml("optimizer = { lr = 0.001 }\n", "x")));
  REQUIRE(hyper_artifact_from_text(good, "x").ok());
  const auto broken = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    const auto read = hyper_artifact_from_text(text, "x.toml");
    REQUIRE(!read.ok());
    CHECK(read.error().code == ErrorCode::corrupt);
    return read.error().message();
  };
  CHECK(broken("optimizer.lr = 0.001\n", "").find("it has no settings") != std::string::npos);
  CHECK(broken("format = 1", "format = 2").find("its format is 2") != std::string::npos);
  CHECK(broken("winner = ", "winners = ").find("winner") != std::string::npos);
  CHECK(broken("\"diverged\"", "\"fine\"").find("has no end") != std::string::npos);
  CHECK(broken("[found]", "[lost]").find("no table [found]") != std::string::npos);
}

}  // namespace longhaul::hyper
