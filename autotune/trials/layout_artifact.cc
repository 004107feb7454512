#include "autotune/trials/layout_artifact.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "contracts/layout/parallel_dims.h"
#include "contracts/schema/field_table.h"

namespace longhaul {
namespace {

// What [found] holds beside the candidates, as a table of fields: it parses strictly and prints itself.
struct FoundFields {
  std::string file, stage, winner, predicted_from;
  int format = 0, trials = 0;
  double predicted_low = 0, predicted_high = 0;
  double step_seconds = 0, step_seconds_half = 0, predicted_seconds = 0, tokens_per_second = 0, confidence = 0;
  double node_hours = 0, scale = 1;
  std::int64_t peak_bytes = 0;
};

const FieldTable<FoundFields>& found_fields() {
  using F = FoundFields;
  static const auto table = FieldTable<F>()
                                .field("file", &F::file, {.required = true})
                                .field("format", &F::format, {.required = true})
                                .field("stage", &F::stage, {.required = true})
                                .field("winner", &F::winner, {.required = true})
                                .field("step_seconds", &F::step_seconds, {.min = 0, .required = true})
                                .field("step_seconds_half", &F::step_seconds_half, {.min = 0, .required = true})
                                .field("predicted_seconds", &F::predicted_seconds, {.min = 0, .required = true})
                                .field("predicted_low", &F::predicted_low, {.min = 0})
                                .field("predicted_high", &F::predicted_high, {.min = 0})
                                .field("predicted_from", &F::predicted_from, {})
                                .field("tokens_per_second", &F::tokens_per_second, {.min = 0, .required = true})
                                .field("peak_bytes", &F::peak_bytes, {.min = 0, .required = true})
                                .field("confidence", &F::confidence, {.min = 0, .max = 1, .required = true})
                                .field("trials", &F::trials, {.min = 0, .required = true})
                                .field("node_hours", &F::node_hours, {.min = 0, .required = true})
                                .field("scale", &F::scale, {.min = 0, .required = true});
  return table;
}

std::string outcome_of(const CandidateVerdict& verdict) {
  if (verdict.won) return "won";
  if (verdict.state == CandidateState::measured) return "lost";
  return verdict.state == CandidateState::failed ? "failed" : "not run";
}

std::string comment(const std::string& text) {
  std::string line = text;
  std::replace(line.begin(), line.end(), '\n', ' ');
  return "# " + line + "\n";
}

// "Predicted: 0.5 s a step, 0.42 to 0.6 s in 95 % of cases, from what was measured here."
std::string predicted_text(const LayoutArtifact& artifact) {
  std::string text = format("Predicted: {:.4g} s a step", artifact.predicted_seconds);
  if (artifact.predicted_high > 0)
    text += format(", {:.3g} to {:.3g} s in 95 % of cases", artifact.predicted_low, artifact.predicted_high);
  if (artifact.predicted_from) text += std::string(", ") + sentence_of(*artifact.predicted_from);
  return text + ".";
}

std::string headline(const LayoutArtifact& artifact) {
  std::string text = comment(format("The layout of stage {}: {}.", artifact.stage, artifact.winner));
  if (artifact.trials == 0)
    text += comment("Chosen by prediction alone: no trial was run.");
  else
    text +=
        comment(format("Measured: {:.4g} s a step, ± {:.2g} s at {:.0f} % confidence, in {} trial{} of {:.3g} "
                       "node-hours altogether.",
                       artifact.step_seconds, artifact.step_seconds_half, 100 * artifact.confidence, artifact.trials,
                       artifact.trials == 1 ? "" : "s", artifact.node_hours));
  if (artifact.predicted_seconds > 0) text += comment(predicted_text(artifact));
  if (artifact.tokens_per_second > 0) text += comment(format("Tokens per second: {:.6g}.", artifact.tokens_per_second));
  if (artifact.peak_bytes > 0)
    text +=
        comment("Memory of the rank that held most: " + human_bytes(static_cast<double>(artifact.peak_bytes)) + ".");
  for (const LayoutCandidate& candidate : artifact.candidates)
    text += comment(format("  {}: {}", candidate.name, candidate.why));
  return text;
}

Error broken(const std::string& path, const std::string& what) {
  return make_error(ErrorCode::corrupt, path + " is not the layout of a tune stage: " + what,
                    "remove the folder of that stage's artifact and resume: the stage is done again");
}

}  // namespace

std::string inline_toml(const Value& value) {
  if (value.is_table()) {
    std::vector<std::string> parts;
    for (const ValueMember& member : value.as_table()) parts.push_back(member.key + " = " + inline_toml(member.value));
    return parts.empty() ? "{}" : "{ " + join(parts, ", ") + " }";
  }
  if (value.is_array()) {
    std::vector<std::string> parts;
    for (const Value& element : value.as_array()) parts.push_back(inline_toml(element));
    return "[" + join(parts, ", ") + "]";
  }
  Value holder = Value::make_table();
  holder.set("x", value);
  const std::string line = to_toml(holder);
  return trim(line.substr(line.find('=') + 1));
}

LayoutArtifact make_layout_artifact(const std::string& stage, std::span<const Trial> candidates,
                                    std::span<const TrialResult> results, const ConfirmationDecision& decision,
                                    const ConfirmationLimits& limits, double tokens_per_step) {
  LayoutArtifact artifact;
  artifact.stage = stage;
  artifact.winner = decision.winner;
  artifact.confidence = limits.confidence;
  artifact.trials = decision.runs;
  artifact.scale = decision.scale;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const CandidateVerdict& verdict = decision.candidates[i];
    artifact.candidates.push_back({verdict.name, outcome_of(verdict), verdict.why});
    if (!verdict.won) continue;
    artifact.settings = candidates[i].settings;
    artifact.predicted_seconds = candidates[i].predicted_seconds;
    artifact.predicted_from = candidates[i].predicted_from;
    if (candidates[i].predicted_sigma > 0) {
      const ForecastRange range = forecast_range(candidates[i].predicted_seconds, candidates[i].predicted_sigma);
      artifact.predicted_low = range.low, artifact.predicted_high = range.high;
    }
    artifact.step_seconds = verdict.seconds.known() ? verdict.seconds.centre : verdict.predicted_seconds;
    artifact.step_seconds_half = verdict.seconds.half_width();
  }
  if (artifact.step_seconds > 0) artifact.tokens_per_second = tokens_per_step / artifact.step_seconds;
  for (const TrialResult& result : results) {
    artifact.node_hours += result.node_seconds / 3600;
    if (result.name == decision.winner) artifact.peak_bytes = result.peak_bytes;
  }
  return artifact;
}

std::string layout_artifact_text(const LayoutArtifact& artifact) {
  std::string text = headline(artifact) + "\n";
  for (const ValueMember& member : artifact.settings.as_table())
    text += member.key + " = " + inline_toml(member.value) + "\n";
  FoundFields fields;
  fields.file = "longhaul layout";
  fields.format = LayoutArtifact::format;
  fields.stage = artifact.stage;
  fields.winner = artifact.winner;
  fields.step_seconds = artifact.step_seconds;
  fields.step_seconds_half = artifact.step_seconds_half;
  fields.predicted_seconds = artifact.predicted_seconds;
  fields.predicted_low = artifact.predicted_low, fields.predicted_high = artifact.predicted_high;
  if (artifact.predicted_from) fields.predicted_from = to_string(*artifact.predicted_from);
  fields.tokens_per_second = artifact.tokens_per_second;
  fields.peak_bytes = artifact.peak_bytes;
  fields.confidence = artifact.confidence;
  fields.trials = artifact.trials;
  fields.node_hours = artifact.node_hours;
  fields.scale = artifact.scale;
  Value found = found_fields().to_value(fields);
  Value candidates = Value::make_array();
  for (const LayoutCandidate& candidate : artifact.candidates) {
    Value entry = Value::make_table();
    entry.set("name", candidate.name);
    entry.set("outcome", candidate.outcome);
    entry.set("why", candidate.why);
    candidates.push_back(std::move(entry));
  }
  found.set("candidates", std::move(candidates));
  Value holder = Value::make_table();
  holder.set("found", std::move(found));
  return text + "\n# How it was found. Nothing below belongs into a stage.\n" + to_toml(holder);
}

Result<LayoutArtifact> layout_artifact_from_text(const std::string& text, const std::string& path) {
  const auto parsed = parse_toml(text, path);
  if (!parsed.ok()) return broken(path, parsed.error().message());
  const Value* found = parsed->find("found");
  if (!found || !found->is_table()) return broken(path, "it has no table [found]");
  if (found->get_string("file") != "longhaul layout") return broken(path, "found.file is not \"longhaul layout\"");
  if (found->get_integer("format") != LayoutArtifact::format)
    return broken(path, format("its format is {}, and this version reads {}", found->get_integer("format"),
                               LayoutArtifact::format));
  Diagnostics problems;
  const FoundFields fields = found_fields().parse(*found, "found", problems, {"candidates"});
  if (!problems.empty()) return broken(path, problems.errors().front().message());
  LayoutArtifact artifact;
  artifact.stage = fields.stage;
  artifact.winner = fields.winner;
  artifact.step_seconds = fields.step_seconds;
  artifact.step_seconds_half = fields.step_seconds_half;
  artifact.predicted_seconds = fields.predicted_seconds;
  artifact.predicted_low = fields.predicted_low, artifact.predicted_high = fields.predicted_high;
  artifact.predicted_from = forecast_source_from(fields.predicted_from);
  if (!fields.predicted_from.empty() && !artifact.predicted_from)
    return broken(path, "found.predicted_from is neither measured_here, measured_elsewhere nor arithmetic");
  artifact.tokens_per_second = fields.tokens_per_second;
  artifact.peak_bytes = fields.peak_bytes;
  artifact.confidence = fields.confidence;
  artifact.trials = fields.trials;
  artifact.node_hours = fields.node_hours;
  artifact.scale = fields.scale;
  artifact.settings = *parsed;
  artifact.settings.erase("found");
  const Value* parallel = artifact.settings.find("parallel");
  if (!parallel || !parallel->is_table()) return broken(path, "it has no table `parallel`");
  if (const auto dims = parallel_dims_fields().parse(*parallel, "parallel"); !dims.ok())
    return broken(path, dims.error().message());
  const Value* candidates = found->find("candidates");
  if (!candidates || !candidates->is_array()) return broken(path, "found.candidates is not a list");
  for (const Value& entry : candidates->as_array()) {
    if (!entry.is_table() || entry.get_string("name").empty() || entry.get_string("outcome").empty())
      return broken(path, "an entry of found.candidates has no name or outcome");
    artifact.candidates.push_back({entry.get_string("name"), entry.get_string("outcome"), entry.get_string("why")});
  }
  return artifact;
}

Result<LayoutArtifact> read_layout_artifact(const std::string& folder) {
  const std::string path = join_path(folder, layout_file_name);
  LH_TRY(const std::string text, read_file(path, 1 << 20));
  return layout_artifact_from_text(text, path);
}

Value layout_figures(const LayoutArtifact& artifact) {
  Value figures = Value::make_table();
  figures.set("step_seconds", artifact.step_seconds);
  figures.set("tokens_per_second", artifact.tokens_per_second);
  figures.set("trials", artifact.trials);
  figures.set("node_hours", artifact.node_hours);
  if (artifact.predicted_seconds > 0) figures.set("predicted_seconds", artifact.predicted_seconds);
  if (artifact.peak_bytes > 0) figures.set("peak_bytes", static_cast<long long>(artifact.peak_bytes));
  return figures;
}

}  // namespace longhaul
