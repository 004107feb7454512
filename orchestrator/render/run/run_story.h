// What a run's files report beyond its status: curves, samples, servers, waterfalls, provenance. For the end of `run`
// and for the report.
#pragma once

#include <string>
#include <vector>

#include "contracts/records/manifest.h"
#include "orchestrator/render/run/tuning_story.h"
#include "orchestrator/state/run_folder.h"
#include "orchestrator/state/run_status.h"
#include "orchestrator/state/stage_goodput.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

struct CurvePoint {
  double step = 0, value = 0;
};
struct Curve {
  std::string name;                // "loss", "validation_loss": a field of metric events
  std::vector<CurvePoint> points;  // by step; a step computed twice counts with its last value
};
struct Sample {
  std::string prompt, text;
};
struct Endpoint {
  std::string url, token_file;  // url "": none
};

struct StageStory {
  std::string id;
  std::vector<Curve> curves;
  std::vector<Sample> samples;
  std::vector<std::string> warnings;  // message events of level warn and error, at most 20
  Endpoint endpoint;
  Value waterfall;     // array from waterfall.json, null without
  TuningStory tuning;  // of a tune stage
  Manifest manifest;   // of the artifact
  bool has_manifest = false;
};

struct RunStory {
  RunStatus status;
  RunPlan plan;                       // may be empty when resolved.toml cannot be read
  std::string software;               // that made the run: "longhaul 0.1.0 (git 1a2b3c4)"
  std::string workflow_path;          // where the workflow came from
  ForkOrigin fork;                    // the run, stage and step that it goes on from; empty: none
  std::vector<StageStory> stages;     // in the order of status.stages
  std::vector<StageGoodput> goodput;  // of trainings
  std::vector<std::string> missing;   // what could not be read, in words
};
Result<RunStory> read_run_story(const std::string& run_dir);

// Folds the events of one stage folder (stages/<id>), all attempts in order.
StageStory read_stage_story(const std::string& stage_dir, const std::string& artifact_dir);

// Attempt numbers below stages/<id>/attempts, ascending.
std::vector<int> attempt_numbers(const std::string& stage_dir);

}  // namespace longhaul
