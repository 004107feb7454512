// What a tune stage's files report: candidates with what was predicted and measured of each. Read from what the run
// kept, so that finished, interrupted and cached stages have one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autotune/search/tuning_forecast.h"
#include "autotune/trials/layout_artifact.h"

namespace longhaul {

struct CandidateStory {
  std::string name, settings;  // as a user would write them, on one line
  std::string outcome;         // of trials.json: "measured", "out of memory", "not run"
  std::string why;
  std::string predicted_from;  // measured_here, ...: what the prediction is made from; "": not known
  double predicted = 0,
         predicted_half = 0;               // s of a step, before any trial, with 95 % of cases; 0: nobody predicted it
  double measured = 0, measured_half = 0;  // s; 0: it was not
  double planned_bytes = 0, held_bytes = 0;  // of the rank that holds most; 0: not known
  double node_hours = 0;
  bool won = false;
};

struct TuningStory {
  std::string target;  // the stage that it is for; "": not known
  double confidence = 0.95;
  double node_hours = 0;  // of all trials
  std::vector<CandidateStory> candidates;
  std::optional<TuningForecast> forecast;
  std::vector<std::string> missing;  // what could not be read, in words

  bool empty() const { return candidates.empty() && !forecast; }
  // Measured over predicted on average (geometric), of those that have both; 0: none has.
  double measured_over_predicted() const;
};

// `stage_dir` holds the files of orchestrator/state/tune_files.h; `artifact_dir` the layout, "" where there is none.
TuningStory read_tuning_story(const std::string& stage_dir, const std::string& artifact_dir);
Value tuning_story_value(const TuningStory& story);

}  // namespace longhaul
