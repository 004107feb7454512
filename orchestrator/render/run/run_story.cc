#include "orchestrator/render/run/run_story.h"

#include <algorithm>
#include <map>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "orchestrator/render/run/thinned_events.h"
#include "orchestrator/state/run_folder.h"
#include "orchestrator/workflow/effect_warnings.h"

namespace longhaul {
namespace {

constexpr std::size_t warnings_max = 20;
constexpr std::size_t samples_max = 100;
constexpr std::size_t points_max = 5'000;  // of a stage's curves: more than a page has columns to draw them in
constexpr std::size_t points_least = 50;   // of one attempt

using CurveMap = std::map<std::string, std::map<double, double>>;

void fold_metric(const Event& event, CurveMap& curves) {
  const Value* step = event.fields.find("step");
  if (!step || !step->is_number()) return;
  for (const ValueMember& member : event.fields.as_table())
    if (member.value.is_number() && member.key != "step")
      curves[member.key][step->as_number()] = member.value.as_number();
}

void fold_event(const Event& event, StageStory& story, CurveMap& curves) {
  if (event.kind == "metric") {
    fold_metric(event, curves);
  } else if (event.kind == "sample" && story.samples.size() < samples_max) {
    story.samples.push_back({event.fields.get_string("prompt"), event.fields.get_string("text")});
  } else if (event.kind == "endpoint") {
    story.endpoint = {event.fields.get_string("url"), event.fields.get_string("token_file")};
  } else if (event.kind == "message" && story.warnings.size() < warnings_max) {
    const std::string level = event.fields.get_string("level");
    if (level == "warn" || level == "error") story.warnings.push_back(level + ": " + event.fields.get_string("text"));
  }
}

struct EventFile {
  std::string path;
  std::size_t bytes = 0, points_max = 0;
};

// Of every attempt of a stage that has any, oldest first. Each has its share of the points by how much it has said, so
// that a curve is as dense in one as in another.
std::vector<EventFile> event_files(const std::string& stage_dir) {
  std::vector<EventFile> files;
  double all = 0;
  for (const int attempt : attempt_numbers(stage_dir)) {
    EventFile file;
    file.path = join_path(stage_dir, format("attempts/{}/events.jsonl", attempt));
    const auto bytes = file_size(file.path);
    if (!bytes.ok()) continue;
    file.bytes = static_cast<std::size_t>(*bytes);
    all += static_cast<double>(file.bytes);
    files.push_back(std::move(file));
  }
  for (EventFile& file : files)
    file.points_max =
        std::max(points_least, static_cast<std::size_t>(static_cast<double>(points_max) *
                                                        static_cast<double>(file.bytes) / std::max(1.0, all)));
  return files;
}

// What was said of the plan before anything ran. Of epochs only where they are not what they are by themselves.
std::vector<std::string> planned_warnings(const RunPlan& plan, const std::string& id) {
  std::vector<std::string> said;
  const PlannedStage* stage = plan.find(id);
  if (stage == nullptr) return said;
  const bool writes_epochs = stage->settings.get_number("epochs", 1) != 1;
  for (const SettingEffect& effect : setting_effects(*stage, writes_epochs)) said.push_back("warn: " + effect.what);
  return said;
}

}  // namespace

std::vector<int> attempt_numbers(const std::string& stage_dir) {
  std::vector<int> numbers;
  const auto names = list_directory(join_path(stage_dir, "attempts"));
  if (!names.ok()) return numbers;
  for (const std::string& name : *names) {
    if (name.empty() || name.size() > 6 || name.find_first_not_of("0123456789") != std::string::npos) continue;
    numbers.push_back(std::stoi(name));
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

StageStory read_stage_story(const std::string& stage_dir, const std::string& artifact_dir) {
  StageStory story;
  CurveMap curves;
  for (const EventFile& file : event_files(stage_dir)) {
    story.samples.clear();  // of the newest attempt only; curves go on where a checkpoint was taken up
    for (const Event& event : read_thinned_events(file.path, file.points_max))
      if (event.fields.is_table()) fold_event(event, story, curves);
  }
  for (const auto& [name, points] : curves) {
    Curve curve{name, {}};
    for (const auto& [step, value] : points) curve.points.push_back({step, value});
    story.curves.push_back(std::move(curve));
  }
  if (artifact_dir.empty()) return story;
  if (auto text = read_file(join_path(artifact_dir, "waterfall.json"), 16 << 20); text.ok())
    if (auto parsed = parse_json(*text, "waterfall.json"); parsed.ok() && parsed->is_array())
      story.waterfall = std::move(*parsed);
  if (auto manifest = read_manifest(artifact_dir); manifest.ok()) {
    story.manifest = std::move(*manifest);
    story.has_manifest = true;
  }
  return story;
}

Result<RunStory> read_run_story(const std::string& run_dir) {
  RunStory story;
  LH_TRY(story.status, read_run_status(run_dir));
  auto frozen = read_frozen_run(run_dir);
  if (frozen.ok()) {
    story.plan = std::move(frozen->plan);
    story.software = frozen->software;
    story.workflow_path = frozen->workflow_path;
    story.fork = std::move(frozen->fork);
  } else {
    story.missing.push_back("the plan: " + frozen.error().message());
  }
  for (const StageStatus& stage : story.status.stages) {
    std::string folder = join_path(run_dir, stage.folder.empty() ? "stages/" + stage.id : stage.folder);
    // A cached stage has no attempts of its own: those of the run that made its artifact lie beside it.
    if (attempt_numbers(folder).empty() && !stage.artifact.empty()) folder = parent_path(stage.artifact);
    story.stages.push_back(read_stage_story(folder, stage.artifact));
    story.stages.back().id = stage.id;
    std::vector<std::string> planned = planned_warnings(story.plan, stage.id);
    std::vector<std::string>& warnings = story.stages.back().warnings;
    warnings.insert(warnings.begin(), planned.begin(), planned.end());
    if (stage.kind == "tune") story.stages.back().tuning = read_tuning_story(folder, stage.artifact);
  }
  if (auto goodput = read_goodput(run_dir, SystemClock().wall_ms()); goodput.ok())
    story.goodput = std::move(*goodput);
  else
    story.missing.push_back("where the time went: " + goodput.error().message());
  return story;
}

}  // namespace longhaul
