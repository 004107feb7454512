// What a `tune` stage publishes: layout.toml, whose first part can be pasted into a stage as it is, and whose second
// part
// ([found]) says how it was found. A training stage with parallel = "@layout" reads it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autotune/trials/confirmation.h"
#include "base/value/value.h"

namespace longhaul {

inline constexpr const char* layout_file_name = "layout.toml";

struct LayoutCandidate {
  std::string name;
  std::string outcome;  // "won" | "lost" | "failed" | "not run"
  std::string why;
};

struct LayoutArtifact {
  static constexpr int format = 1;
  std::string stage;             // that it is for
  Value settings;                // of the winner, as a user would write them: with `parallel`, and `ranks`
  std::string winner;            // name of the candidate
  double step_seconds = 0;       // measured; predicted where nothing was run
  double step_seconds_half = 0;  // half the width of its interval; 0: nothing was run
  double predicted_seconds = 0;  // 0: nobody predicted it
  double predicted_low = 0, predicted_high = 0;  // between which 95 % of cases lie; 0: nobody said
  std::optional<ForecastSource> predicted_from;  // what it is made from; nullopt: nobody said
  double tokens_per_second = 0;                  // 0: not known
  std::int64_t peak_bytes = 0;                   // held by the rank that held most; 0: not known
  double confidence = 0.95;
  int trials = 0;                           // that were begun
  double node_hours = 0;                    // of their jobs
  double scale = 1;                         // measured over predicted
  std::vector<LayoutCandidate> candidates;  // in the order of their prediction
};

// `tokens_per_step`: of the stage. A decision that has a winner.
LayoutArtifact make_layout_artifact(const std::string& stage, std::span<const Trial> candidates,
                                    std::span<const TrialResult> results, const ConfirmationDecision& decision,
                                    const ConfirmationLimits& limits, double tokens_per_step);

std::string layout_artifact_text(const LayoutArtifact& artifact);
// Strict: another format, an unknown key of [found], a missing or wrongly typed one, no layout: ErrorCode::corrupt.
Result<LayoutArtifact> layout_artifact_from_text(const std::string& text, const std::string& path);
Result<LayoutArtifact> read_layout_artifact(const std::string& folder);
// For the manifest: step_seconds, tokens_per_second, trials, node_hours, ...
Value layout_figures(const LayoutArtifact& artifact);

// A value as TOML writes it on one line: { tp = 2, sp = true }.
std::string inline_toml(const Value& value);

}  // namespace longhaul
