#include "orchestrator/forecast/measured_trainings.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/files/folder_access.h"
#include "base/system/clock.h"
#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {
namespace {

constexpr int measured_format = 1;
constexpr std::size_t files_max = 2000;  // of which the names' newest are read
constexpr std::size_t coordinates_max = 64;

Value measured_list(std::span<const MeasuredTraining> trainings) {
  Value list = Value::make_array();
  for (const MeasuredTraining& one : trainings) {
    Value entry = Value::make_table();
    entry.set("name", one.name), entry.set("device", one.device);
    entry.set("like_kind", one.like.kind);
    entry.set("like_at", Value(ValueArray(one.like.at.begin(), one.like.at.end())));
    entry.set("predicted_seconds", one.predicted), entry.set("seconds", one.measured);
    entry.set("run", one.run), entry.set("stage", one.stage), entry.set("at_ms", static_cast<long long>(one.at_ms));
    list.push_back(std::move(entry));
  }
  return list;
}

Value measured_document(std::span<const MeasuredTraining> trainings) {
  Value document = Value::make_table();
  document.set("format", measured_format);
  document.set("trainings", measured_list(trainings));
  return document;
}

bool is_step_time(double seconds) {
  return std::isfinite(seconds) && seconds > 0;
}

Result<MeasuredTraining> measured_from(const Value& entry) {
  MeasuredTraining one;
  one.name = entry.get_string("name"), one.device = entry.get_string("device");
  one.like.kind = entry.get_string("like_kind");
  if (const Value* at = entry.find("like_at"); at && at->is_array())
    for (const Value& coordinate : at->as_array())
      if (coordinate.is_number()) one.like.at.push_back(coordinate.as_number());
  one.predicted = entry.get_number("predicted_seconds"), one.measured = entry.get_number("seconds");
  one.run = entry.get_string("run"), one.stage = entry.get_string("stage"), one.at_ms = entry.get_integer("at_ms");
  const bool whole = !one.name.empty() && !one.device.empty() && !one.like.kind.empty() && !one.like.at.empty() &&
                     one.like.at.size() <= coordinates_max && is_step_time(one.predicted) &&
                     is_step_time(one.measured) &&
                     std::all_of(one.like.at.begin(), one.like.at.end(), [](double c) { return std::isfinite(c); });
  if (whole) return one;
  return make_error(ErrorCode::corrupt, format("training '{}' lacks a device, a likeness or a time", one.name));
}

Result<std::vector<MeasuredTraining>> measured_from_document(const Value& document, const std::string& path) {
  const auto wrong = [&](const std::string& what) {
    return make_error(ErrorCode::corrupt, path + " does not say what was measured: " + what,
                      "remove it: predictions only begin without it");
  };
  const Value* list = document.find("trainings");
  if (!document.is_table() || document.get_integer("format") != measured_format || !list || !list->is_array())
    return wrong(format("no list of trainings of format {}", measured_format));
  std::vector<MeasuredTraining> trainings;
  for (const Value& entry : list->as_array()) {
    auto one = entry.is_table() ? measured_from(entry)
                                : Result<MeasuredTraining>(make_error(ErrorCode::corrupt, "an entry is no table"));
    if (!one.ok()) return wrong(one.error().what);
    trainings.push_back(std::move(*one));
  }
  return trainings;
}

struct KeptFile {
  std::string site, constants;
  std::vector<MeasuredTraining> trainings;
};

Result<KeptFile> read_kept(const std::string& path) {
  LH_TRY(const std::string text, read_file(path));
  LH_TRY(const Value document, parse_json(text, path));
  LH_TRY(std::vector<MeasuredTraining> trainings, measured_from_document(document, path));
  return KeptFile{document.get_string("site"), document.get_string("constants"), std::move(trainings)};
}

// Of the constants but what this machine's processor showed: that is measured again with every build, and the device
// says whether it was measured. How far a prediction is off is the time model's, not the processor's.
std::string digest_of_constants(const std::string& text) {
  std::string rest;
  bool measured_section = false;
  for (const std::string& line : split(text, '\n')) {
    if (starts_with(line, "[")) measured_section = starts_with(line, "[processor.");
    if (!measured_section && !trim(line).empty()) rest += line + "\n";
  }
  return xxh3_128_hex(rest);
}

// The newest of each device.
void keep_newest(std::vector<MeasuredTraining>& trainings) {
  std::stable_sort(trainings.begin(), trainings.end(),
                   [](const MeasuredTraining& a, const MeasuredTraining& b) { return a.at_ms > b.at_ms; });
  std::map<std::string, int> seen;
  std::erase_if(trainings, [&](const MeasuredTraining& one) { return ++seen[one.device] > measured_max; });
}

}  // namespace

std::vector<MeasuredRatio> MeasuredTrainings::of(const std::string& device) const {
  std::vector<MeasuredRatio> ratios;
  for (const MeasuredTraining& one : trainings)
    if (one.device == device) ratios.push_back({one.like, std::log(one.measured / one.predicted)});
  return ratios;
}

std::string MeasuredTrainings::newest_of(const std::string& device) const {
  for (const MeasuredTraining& one : trainings)
    if (one.device == device) return one.run;
  return {};
}

Status keep_measured(const std::string& runs_dir, const FolderAccess& access, const MeasuringStage& stage,
                     std::vector<MeasuredTraining> trainings) {
  if (trainings.empty()) return {};
  for (MeasuredTraining& one : trainings) one.run = stage.run, one.stage = stage.stage, one.at_ms = stage.at_ms;
  Value document = measured_document(trainings);
  document.set("site", stage.site), document.set("constants", digest_of_constants(stage.constants_text));
  const std::string folder = join_path(runs_dir, measured_folder_name);
  LH_CHECK(share_folder(folder, access, true));
  // The time first: names sort by age.
  std::string name = format("{}-{}-{}.json", compact_utc_text(stage.at_ms), stage.run, stage.stage);
  std::replace(name.begin(), name.end(), '/', '_');  // of a variant's id
  return write_file_atomic(join_path(folder, name), to_json_pretty(document));
}

std::vector<MeasuredTraining> measured_trials(std::span<const Trial> candidates, std::span<const double> seconds,
                                              const std::string& device) {
  std::vector<MeasuredTraining> trainings;
  for (std::size_t i = 0; i < candidates.size() && i < seconds.size(); ++i) {
    const Trial& trial = candidates[i];
    if (!is_step_time(seconds[i]) || !is_step_time(trial.predicted_seconds) || trial.like.kind.empty()) continue;
    MeasuredTraining one;
    one.name = trial.name, one.device = device, one.like = trial.like;
    one.predicted = trial.predicted_seconds / trial.correction, one.measured = seconds[i];
    trainings.push_back(std::move(one));
  }
  return trainings;
}

MeasuredTrainings load_measured(const std::string& runs_dir, const std::string& site,
                                const std::string& constants_text) {
  MeasuredTrainings measured;
  const std::string folder = join_path(runs_dir, measured_folder_name);
  auto names = list_directory(folder);
  if (!names.ok()) {
    if (names.error().code != ErrorCode::not_found) measured.set_aside.push_back(names.error().message());
    return measured;
  }
  std::erase_if(*names, [](const std::string& name) { return starts_with(name, ".") || !ends_with(name, ".json"); });
  std::sort(names->begin(), names->end(), std::greater<>());
  if (names->size() > files_max) names->resize(files_max);
  const std::string constants = digest_of_constants(constants_text);
  for (const std::string& name : *names) {
    auto kept = read_kept(join_path(folder, name));
    if (!kept.ok()) {
      measured.set_aside.push_back(kept.error().message());
      continue;
    }
    if (kept->site != site || kept->constants != constants) continue;
    std::move(kept->trainings.begin(), kept->trainings.end(), std::back_inserter(measured.trainings));
    if (measured.trainings.size() >= 10 * measured_max) break;  // of any device: older ones add little
  }
  keep_newest(measured.trainings);
  return measured;
}

std::string measured_trainings_text(const MeasuredTrainings& measured) {
  return to_json_pretty(measured_document(measured.trainings));
}

Result<MeasuredTrainings> read_measured_trainings(const std::string& path) {
  MeasuredTrainings measured;
  if (!file_exists(path)) return measured;
  LH_TRY(const std::string text, read_file(path));
  LH_TRY(const Value document, parse_json(text, path));
  LH_TRY(measured.trainings, measured_from_document(document, path));
  return measured;
}

}  // namespace longhaul
