#include "orchestrator/render/run/tuning_story.h"

#include <algorithm>
#include <cmath>

#include "base/files/files.h"
#include "base/value/json.h"
#include "orchestrator/state/tune_files.h"

namespace longhaul {
namespace {

constexpr std::size_t tune_file_max = 64 << 20;
constexpr double deviations_95 = 1.96;

// Null where there is no such file; one that is damaged is named.
Value read_tune_file(const std::string& folder, const char* name, std::vector<std::string>& missing) {
  const std::string path = join_path(folder, name);
  if (!file_exists(path)) return {};
  const auto text = read_file(path, tune_file_max);
  auto parsed = text.ok() ? parse_json(*text, path) : Result<Value>(text.error());
  if (parsed.ok()) return std::move(parsed).value();
  missing.push_back(parsed.error().message());
  return {};
}

CandidateStory* candidate_named(TuningStory& story, const std::string& name) {
  const auto found = std::find_if(story.candidates.begin(), story.candidates.end(),
                                  [&](const CandidateStory& one) { return one.name == name; });
  return found == story.candidates.end() ? nullptr : &*found;
}

void read_candidates(const Value& list, TuningStory& story) {
  if (!list.is_array()) return;
  for (const Value& entry : list.as_array()) {
    CandidateStory one;
    one.name = entry.get_string("name");
    if (one.name.empty()) continue;
    if (const Value* settings = entry.find("settings"); settings && settings->is_table()) {
      Value shown = *settings;
      shown.erase("faults");  // of a test
      one.settings = inline_toml(shown);
    }
    one.outcome = "not run";
    one.predicted = entry.get_number("predicted_seconds");
    one.predicted_half = deviations_95 * entry.get_number("predicted_sigma") * one.predicted;
    one.predicted_from = entry.get_string("predicted_from");
    one.planned_bytes = entry.get_number("predicted_bytes");
    story.candidates.push_back(std::move(one));
  }
}

void read_trials(const Value& document, TuningStory& story) {
  const Value* list = document.find("trials");
  if (!list || !list->is_array()) return;
  const std::string winner = document.get_string("winner");
  for (const Value& entry : list->as_array()) {
    CandidateStory* one = candidate_named(story, entry.get_string("name"));
    if (!one) {  // candidates.json is damaged: what the trials say stands all the same
      story.candidates.emplace_back().name = entry.get_string("name");
      one = &story.candidates.back();
    }
    one->outcome = entry.get_string("outcome"), one->why = entry.get_string("why");
    one->measured = entry.get_number("step_seconds"), one->measured_half = entry.get_number("step_seconds_half");
    one->held_bytes = entry.get_number("peak_bytes");
    one->node_hours = entry.get_number("node_hours");
    one->won = !winner.empty() && one->name == winner;
    story.node_hours += one->node_hours;
  }
}

// A layout of earlier versions, or of which only the artifact is left.
void read_artifact_of(const std::string& artifact_dir, TuningStory& story) {
  const auto artifact = read_layout_artifact(artifact_dir);
  if (!artifact.ok()) {
    story.missing.push_back(artifact.error().message());
    return;
  }
  story.target = artifact->stage, story.confidence = artifact->confidence;
  if (artifact->trials > 0) story.node_hours = artifact->node_hours;
  if (!story.candidates.empty()) return;
  for (const LayoutCandidate& candidate : artifact->candidates) {
    CandidateStory& one = story.candidates.emplace_back();
    one.name = candidate.name, one.outcome = candidate.outcome, one.why = candidate.why;
    one.won = candidate.name == artifact->winner;
    if (!one.won) continue;
    one.settings = inline_toml(artifact->settings), one.predicted = artifact->predicted_seconds;
    one.held_bytes = static_cast<double>(artifact->peak_bytes);
    if (artifact->trials > 0) one.measured = artifact->step_seconds, one.measured_half = artifact->step_seconds_half;
  }
}

}  // namespace

double TuningStory::measured_over_predicted() const {
  double logarithms = 0;
  int count = 0;
  for (const CandidateStory& one : candidates)
    if (one.measured > 0 && one.predicted > 0) logarithms += std::log(one.measured / one.predicted), ++count;
  return count > 0 ? std::exp(logarithms / count) : 0;
}

TuningStory read_tuning_story(const std::string& stage_dir, const std::string& artifact_dir) {
  TuningStory story;
  read_candidates(read_tune_file(stage_dir, candidates_file_name, story.missing), story);
  read_trials(read_tune_file(stage_dir, trials_file_name, story.missing), story);
  if (!artifact_dir.empty()) read_artifact_of(artifact_dir, story);
  const Value predictions = read_tune_file(stage_dir, predictions_file_name, story.missing);
  if (predictions.is_null()) return story;
  auto forecast = tuning_forecast_from_value(predictions, join_path(stage_dir, predictions_file_name));
  if (!forecast.ok()) {
    story.missing.push_back(forecast.error().message());
    return story;
  }
  story.forecast = std::move(forecast).value();
  for (CandidateStory& one : story.candidates) {
    const LayoutForecast* predicted = story.forecast->find(one.name);
    if (!predicted) continue;
    if (one.predicted <= 0)
      one.predicted = predicted->seconds(), one.predicted_half = deviations_95 * predicted->time.sigma * one.predicted;
    if (one.predicted_from.empty() && story.forecast->source) one.predicted_from = to_string(*story.forecast->source);
    if (one.planned_bytes <= 0) one.planned_bytes = predicted->memory;
  }
  return story;
}

Value tuning_story_value(const TuningStory& story) {
  Value value = Value::make_table();
  if (!story.target.empty()) value.set("for", story.target);
  value.set("node_hours", story.node_hours);
  value.set("confidence", story.confidence);
  if (const double ratio = story.measured_over_predicted(); ratio > 0) value.set("measured_over_predicted", ratio);
  Value& list = value.set("candidates", Value::make_array());
  for (const CandidateStory& one : story.candidates) {
    Value& entry = list.push_back(Value::make_table());
    entry.set("name", one.name), entry.set("settings", one.settings);
    entry.set("outcome", one.outcome), entry.set("why", one.why), entry.set("won", one.won);
    if (one.predicted > 0) entry.set("predicted_seconds", one.predicted);
    if (one.predicted_half > 0) entry.set("predicted_seconds_half", one.predicted_half);
    if (!one.predicted_from.empty()) entry.set("predicted_from", one.predicted_from);
    if (one.measured > 0) entry.set("step_seconds", one.measured), entry.set("step_seconds_half", one.measured_half);
    if (one.planned_bytes > 0) entry.set("planned_bytes", one.planned_bytes);
    if (one.held_bytes > 0) entry.set("peak_bytes", one.held_bytes);
    if (one.node_hours > 0) entry.set("node_hours", one.node_hours);
  }
  if (story.forecast) value.set("predictions", tuning_forecast_to_value(*story.forecast));
  return value;
}

}  // namespace longhaul
