#include "autotune/hyper/hyper_artifact.h"

#include <algorithm>

#include "autotune/trials/layout_artifact.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/toml.h"

namespace longhaul::hyper {
namespace {

constexpr const char* hyper_file_kind = "longhaul hyperparameters";

const FieldTable<HyperArtifact>& found_fields() {
  using A = HyperArtifact;
  static const auto table = FieldTable<A>()
                                .field("stage", &A::stage, {.required = true})
                                .field("winner", &A::winner, {.required = true})
                                .field("metric", &A::metric, {.required = true})
                                .field("value", &A::value, {.required = true})
                                .field("rung", &A::rung, {.min = 0, .required = true})
                                .field("steps", &A::steps, {.min = 1, .required = true})
                                .field("whole", &A::whole, {.required = true})
                                .field("share_of_grid", &A::share_of_grid, {.min = 0, .required = true})
                                .field("trained_steps", &A::trained_steps, {.min = 0, .required = true})
                                .field("node_hours", &A::node_hours, {.min = 0, .required = true})
                                .field("set_aside", &A::set_aside, {});
  return table;
}

std::string comment_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return "# " + text + "\n";
}

// "t0003  optimizer.lr = 0.0025: heldout_loss 3.7256 after 1600 steps, won"
std::string trial_line(const TrialStanding& one, const std::string& metric) {
  const std::string shown =
      one.end == RungEnd::done ? format("{} {:.6g} after {} steps, ", metric, one.metric, one.steps) : std::string();
  return format("  {}  {}: {}{}", one.name, configuration_text(one.settings), shown, one.verdict);
}

void paste_lines(const Value& table, const std::string& prefix, std::string& text) {
  for (const ValueMember& member : table.as_table())
    if (member.value.is_table())
      paste_lines(member.value, prefix + member.key + ".", text);
    else
      text += prefix + member.key + " = " + inline_toml(member.value) + "\n";
}

Value standing_to_value(const TrialStanding& one) {
  Value entry = Value::make_table();
  entry.set("name", one.name);
  entry.set("settings", one.settings);
  entry.set("rung", one.rung);
  entry.set("steps", static_cast<long long>(one.steps));
  entry.set("end", to_string(one.end));
  if (one.end == RungEnd::done) entry.set("metric", one.metric);
  entry.set("verdict", one.verdict);
  return entry;
}

Error broken(const std::string& path, const std::string& what) {
  return make_error(ErrorCode::corrupt, path + " is not the result of a search stage: " + what,
                    "remove the folder of that stage's artifact and resume: the stage is done again");
}

}  // namespace

HyperArtifact make_hyper_artifact(const std::string& stage, const Halving& search, const std::vector<Trial>& history,
                                  std::vector<TrialStanding> standings, Value settings) {
  HyperArtifact artifact;
  const auto best = search.best(history);
  artifact.stage = stage;
  artifact.settings = std::move(settings);
  artifact.metric = search.settings().metric;
  artifact.trials = std::move(standings);
  if (best) {
    artifact.winner = best->trial;
    artifact.value = best->metric;
    artifact.rung = best->rung;
    artifact.steps = search.steps(best->rung, best->settings);
    artifact.whole = best->whole;
  }
  const SearchCost cost = search.cost(history);
  artifact.trained_steps = cost.steps;
  artifact.share_of_grid = cost.share();
  return artifact;
}

std::string hyper_artifact_text(const HyperArtifact& artifact) {
  std::string text = comment_line(format("Hyperparameters of stage {}: {} has the best {}, {:.6g} after {} steps{}.",
                                         artifact.stage, artifact.winner, artifact.metric, artifact.value,
                                         artifact.steps, artifact.whole ? "" : ", which are no whole training"));
  text +=
      comment_line(format("Found with {} configurations by {:.3g} % of the steps of a full grid, in {:.3g} "
                          "node-hours.",
                          artifact.trials.size(), 100 * artifact.share_of_grid, artifact.node_hours));
  for (const TrialStanding& one : artifact.trials) text += comment_line(trial_line(one, artifact.metric));
  for (const std::string& what : artifact.set_aside) text += comment_line("set aside: " + what);
  text += comment_line(
              format("To be pasted into [stage.{}], or taken by hyperparameters = \"@...\" there.", artifact.stage)) +
          "\n";
  paste_lines(artifact.settings, "", text);
  Value found = Value::make_table();
  found.set("file", hyper_file_kind);
  found.set("format", HyperArtifact::format);
  const Value fields = found_fields().to_value(artifact);
  for (const ValueMember& field : fields.as_table()) found.set(field.key, field.value);
  Value trials = Value::make_array();
  for (const TrialStanding& one : artifact.trials) trials.push_back(standing_to_value(one));
  found.set("trials", std::move(trials));
  Value holder = Value::make_table();
  holder.set("found", std::move(found));
  return text + "\n# How they were found. Nothing below belongs into a stage.\n" + to_toml(holder);
}

Result<HyperArtifact> hyper_artifact_from_text(const std::string& text, const std::string& path) {
  const auto parsed = parse_toml(text, path);
  if (!parsed.ok()) return broken(path, parsed.error().message());
  const Value* found = parsed->find("found");
  if (!found || !found->is_table()) return broken(path, "it has no table [found]");
  if (found->get_string("file") != hyper_file_kind)
    return broken(path, longhaul::format("found.file is not \"{}\"", hyper_file_kind));
  if (found->get_integer("format") != HyperArtifact::format)
    return broken(path, longhaul::format("its format is {}, and this version reads {}", found->get_integer("format"),
                                         HyperArtifact::format));
  Diagnostics problems;
  HyperArtifact artifact = found_fields().parse(*found, "found", problems, {"file", "format", "trials"});
  if (!problems.empty()) return broken(path, problems.errors().front().message());
  artifact.settings = *parsed;
  artifact.settings.erase("found");
  if (artifact.settings.size() == 0) return broken(path, "it has no settings");
  const Value* trials = found->find("trials");
  if (!trials || !trials->is_array()) return broken(path, "found.trials is not a list");
  for (const Value& entry : trials->as_array()) {
    TrialStanding one;
    one.name = entry.get_string("name");
    if (const Value* settings = entry.find("settings")) one.settings = *settings;
    if (one.name.empty() || !one.settings.is_table())
      return broken(path, "an entry of found.trials has no name or settings");
    one.rung = static_cast<int>(entry.get_integer("rung"));
    one.steps = entry.get_integer("steps");
    one.metric = entry.get_number("metric");
    one.verdict = entry.get_string("verdict");
    const auto end = rung_end_of(entry.get_string("end"));
    if (!end) return broken(path, "trial " + one.name + " has no end");
    one.end = *end;
    one.whole = one.end == RungEnd::done && one.rung == artifact.rung && artifact.whole;
    artifact.trials.push_back(std::move(one));
  }
  return artifact;
}

Result<HyperArtifact> read_hyper_artifact(const std::string& folder) {
  const std::string path = join_path(folder, hyper_file_name);
  LH_TRY(const std::string text, read_file(path, 1 << 26));
  return hyper_artifact_from_text(text, path);
}

Value hyper_figures(const HyperArtifact& artifact) {
  Value figures = Value::make_table();
  figures.set(artifact.metric, artifact.value);
  figures.set("trials", artifact.trials.size());
  figures.set("trained_steps", artifact.trained_steps);
  figures.set("share_of_grid", artifact.share_of_grid);
  figures.set("node_hours", artifact.node_hours);
  return figures;
}

}  // namespace longhaul::hyper
