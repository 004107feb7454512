// What the files of a tune stage hold, whole or damaged, and the page that is made of it.
#include "orchestrator/render/run/tuning_story.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/value/json.h"
#include "orchestrator/render/report/tuning_html.h"
#include "orchestrator/state/tune_files.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

namespace tuning_story_test {

const char* const candidates_json = R"([
  {"name": "one", "settings": {"parallel": {}, "faults": {"at": []}}, "steps": 20, "predicted_seconds": 0.1,
   "predicted_sigma": 0.05, "predicted_bytes": 1000000},
  {"name": "tp2", "settings": {"parallel": {"tp": 2}}, "steps": 20, "predicted_seconds": 0, "predicted_sigma": 0,
   "predicted_bytes": 0}])";
const char* const trials_json = R"({"trials": [
  {"name": "one", "outcome": "measured", "why": "the fastest", "step_seconds": 0.11, "step_seconds_half": 0.001,
   "peak_bytes": 1200000, "node_hours": 0.02},
  {"name": "tp2", "outcome": "out of memory", "why": "<b>no room</b>", "node_hours": 0.01}],
  "winner": "one", "rounds": 1})";

TuningForecast forecast_of(const std::vector<std::string>& names) {
  TuningForecast forecast;
  forecast.device = "ranks of 1 core";
  for (const std::string& name : names) {
    LayoutForecast& one = forecast.candidates.emplace_back();
    one.name = name, one.layout = "dp=1", one.memory = 2e6;
    one.time[StepPart::products] = 0.2, one.time.sigma = 0.1;
    one.pipeline.costs.stages.push_back({1, 1, 1, 2});
  }
  return forecast;
}

void keep(const testing::Scratch& folder, const char* name, const std::string& text) {
  REQUIRE(write_file_atomic(folder.file(name), text).ok());
}

TEST_CASE("candidates, what became of them, and what was predicted come together by name") {
  const testing::Scratch folder;
  keep(folder, candidates_file_name, candidates_json);
  keep(folder, trials_file_name, trials_json);
  keep(folder, predictions_file_name, to_json_pretty(tuning_forecast_to_value(forecast_of({"one", "tp2"}))));
  const TuningStory story = read_tuning_story(folder.path(), "");
  CHECK(story.missing.empty());
  REQUIRE(story.candidates.size() == 2);
  const CandidateStory &one = story.candidates[0], &tp2 = story.candidates[1];
  CHECK(one.won);
  CHECK(one.settings == "{ parallel = {} }");    // no fault of a test
  CHECK(one.predicted == doctest::Approx(0.1));  // what decided, not what is drawn beside it
  CHECK(one.predicted_half == doctest::Approx(1.96 * 0.05 * 0.1));
  CHECK(one.held_bytes == 1.2e6);
  CHECK(tp2.outcome == "out of memory");
  CHECK(tp2.predicted == doctest::Approx(0.2));  // written candidates are predicted for the report alone
  CHECK(tp2.planned_bytes == 2e6);
  CHECK(story.node_hours == doctest::Approx(0.03));
  CHECK(story.measured_over_predicted() == doctest::Approx(1.1));
  const std::string html = tuning_html(story);
  CHECK(html.find("&lt;b&gt;no room&lt;/b&gt;") != std::string::npos);
  CHECK(html.find("<b>no room") == std::string::npos);
  CHECK(html.find("2 of 2 candidates tried in 0.03 node-hours") != std::string::npos);
  CHECK(html.find("predicted against measured") != std::string::npos);
  CHECK(html.find("where a step&#39;s time goes") != std::string::npos);
  CHECK(tuning_story_value(story).find("candidates")->size() == 2);
}

TEST_CASE("a stage that has not begun has no story; one without trials has its predictions") {
  const testing::Scratch folder;
  CHECK(read_tuning_story(folder.path(), "").empty());
  CHECK(tuning_html(read_tuning_story(folder.path(), "")).empty());
  keep(folder, candidates_file_name, candidates_json);
  const TuningStory begun = read_tuning_story(folder.path(), "");
  CHECK(begun.candidates.front().outcome == "not run");
  CHECK(begun.measured_over_predicted() == 0);
  const std::string html = tuning_html(begun);
  CHECK(html.find("no trial has shown anything") != std::string::npos);
  CHECK(html.find("predicted against measured") == std::string::npos);
}

TEST_CASE("files that are damaged are named, and the rest is reported") {
  const testing::Scratch folder;
  keep(folder, candidates_file_name, std::string(candidates_json).substr(0, 100));
  keep(folder, trials_file_name, trials_json);
  keep(folder, predictions_file_name, "{\"format\": 1}");
  const TuningStory story = read_tuning_story(folder.path(), "");
  REQUIRE(story.missing.size() == 2);
  CHECK(story.missing[0].find(candidates_file_name) != std::string::npos);
  CHECK(story.missing[1].find(predictions_file_name) != std::string::npos);
  CHECK(story.candidates.size() == 2);
  const std::string html = tuning_html(story);
  CHECK(html.find("not readable") != std::string::npos);
  CHECK(html.find("out of memory") != std::string::npos);
}

TEST_CASE("of a layout whose trials are gone the artifact still says it") {
  const testing::Scratch folder;
  LayoutArtifact artifact;
  artifact.stage = "pretrain", artifact.winner = "one", artifact.trials = 2, artifact.node_hours = 0.5;
  artifact.step_seconds = 0.3, artifact.step_seconds_half = 0.01, artifact.predicted_seconds = 0.25;
  artifact.settings.set("parallel", Value::make_table());
  artifact.candidates = {{"one", "won", "the fastest"}, {"tp2", "lost", "slower"}};
  keep(folder, layout_file_name, layout_artifact_text(artifact));
  const TuningStory story = read_tuning_story(folder.file("no stage"), folder.path());
  CHECK(story.target == "pretrain");
  REQUIRE(story.candidates.size() == 2);
  CHECK(story.candidates[0].won);
  CHECK(story.candidates[0].measured == doctest::Approx(0.3));
  CHECK(story.candidates[1].measured == 0);
  CHECK(story.node_hours == doctest::Approx(0.5));
}

}  // namespace tuning_story_test
}  // namespace
}  // namespace longhaul
