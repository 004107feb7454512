// What a `search` stage publishes: hyperparameters.toml, whose first part can be pasted into a stage as it is, and
// whose second part ([found]) says how it was found. A training stage with hyperparameters = "@search" reads it.
#pragma once

#include <string>
#include <vector>

#include "autotune/hyper/trial_standings.h"

namespace longhaul::hyper {

inline constexpr const char* hyper_file_name = "hyperparameters.toml";

struct HyperArtifact {
  static constexpr int format = 1;
  std::string stage;   // that it is for
  Value settings;      // of the winner, as a user would write them: { optimizer = { lr = 1e-3 } }
  std::string winner;  // name of the trial
  std::string metric;  // what was compared
  double value = 0;    // of the winner
  int rung = 0;
  std::int64_t steps = 0;              // of the winner's training
  bool whole = false;                  // that was a whole one
  double share_of_grid = 0;            // steps trained, of those of a full grid
  double trained_steps = 0;            // altogether, of the stage's own batch size
  double node_hours = 0;               // of their jobs
  std::vector<TrialStanding> trials;   // the best first
  std::vector<std::string> set_aside;  // damaged results, by name
};

// Of a search that has a best trial. `settings`: the winner's, as they are written in the stage.
HyperArtifact make_hyper_artifact(const std::string& stage, const Halving& search, const std::vector<Trial>& history,
                                  std::vector<TrialStanding> standings, Value settings);

std::string hyper_artifact_text(const HyperArtifact& artifact);
// Strict: another format, a missing or wrongly typed key of [found], no settings: ErrorCode::corrupt.
Result<HyperArtifact> hyper_artifact_from_text(const std::string& text, const std::string& path);
Result<HyperArtifact> read_hyper_artifact(const std::string& folder);
// For the manifest: the metric by its name, trials, node_hours, share_of_grid, ...
Value hyper_figures(const HyperArtifact& artifact);

}  // namespace longhaul::hyper
