#include "orchestrator/workflow/trials/trial_stage.h"

#include <algorithm>
#include <cctype>

#include "base/digest/hash.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "contracts/control/collective_deadline.h"
#include "contracts/settings/stages/hyper_search.h"
#include "contracts/tasks/stage_kinds.h"
#include "orchestrator/workflow/layout/stage_layout.h"
#include "orchestrator/workflow/source/stage_text.h"

namespace longhaul {
namespace {

constexpr std::size_t candidate_name_max = 100;  // folder names end at 255 bytes
constexpr double trial_lr_share = 1e-3;          // of the learning rate: a trial shows times, not losses

const std::vector<std::string>& resource_keys() {
  static const std::vector<std::string> keys = {"ranks", "nodes", "threads"};
  return keys;
}
bool is_one_of(const std::vector<std::string>& list, const std::string& key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

std::string label_of(const Value& value) {
  if (value.is_string()) return value.as_string();
  if (value.is_bool()) return value.as_bool() ? "yes" : "no";
  if (value.is_integer()) return std::to_string(value.as_integer());
  if (value.is_number()) return format("{:g}", value.as_number());
  std::vector<std::string> parts;
  if (value.is_array())
    for (const Value& element : value.as_array()) parts.push_back(label_of(element));
  return parts.empty() ? "none" : join(parts, "+");
}

void collect_labels(const Value& table, std::vector<std::string>& labels) {
  for (const ValueMember& member : table.as_table()) {
    if (member.value.is_table())
      collect_labels(member.value, labels);
    else
      labels.push_back(member.key + "=" + label_of(member.value));
  }
}

void set_in(Value& settings, const char* group, const char* key, Value value) {
  if (Value* table = settings.find(group); table && table->is_table() && table->find(key))
    table->set(key, std::move(value));
}
void set_known(Value& settings, const char* key, Value value) {
  if (settings.find(key)) settings.set(key, std::move(value));
}

// Of a training a rank may take long to its first step; of a trial that takes half of its time none will follow. So one
// that stands still from the beginning is a hang, with the rank that is to blame, and not out of time.
void notice_early_hangs(StageCommon& common) {
  double& startup_s = common.resiliency.startup.value;
  if (startup_s != ResiliencySettings{}.startup.value) return;  // somebody knows better
  const double least_s = static_cast<double>(collective_deadline_ms) * 1e-3;
  if (common.time_limit.value > 0) startup_s = std::min(startup_s, std::max(least_s, common.time_limit.value / 2));
}

// A few steps at full batch that leave nothing behind.
void shorten(Value& settings, std::int64_t steps) {
  for (const char* key : {"phase", "batch_rampup"}) settings.erase(key);
  set_known(settings, "steps", static_cast<long long>(steps));
  set_known(settings, "eval_every_steps", 0);
  set_known(settings, "milestone_every", 0);
  set_known(settings, "tensorboard", false);
  set_in(settings, "trace", "steps", 0);
  for (const char* key : {"every_steps", "keep_every", "keep_best", "local_every_steps", "snapshot_every"})
    set_in(settings, "checkpoint", key, 0);
  set_in(settings, "checkpoint", "in_process", false);
  set_in(settings, "checkpoint", "at_end", false);
  set_in(settings, "optimizer", "lr_schedule", "constant");
  for (const char* key : {"warmup_steps", "lr_decay_steps", "rewarm_after", "rewarm_steps"})
    set_in(settings, "optimizer", key, 0);
  if (Value* optimizer = settings.find("optimizer"); optimizer && optimizer->is_table())
    optimizer->set("lr", trial_lr_share * optimizer->get_number("lr"));
}

}  // namespace

PlannedStage stage_with(const PlannedStage& stage, const Value& settings, bool ranks_are_fixed,
                        Diagnostics& diagnostics) {
  const StageKind* kind = find_stage_kind(stage.kind);
  PlannedStage made = stage;
  made.layout_from.clear();
  Value written = stage.settings;
  written.pos = settings.pos;
  Value resources = Value::make_table();
  bool readable = true;
  for (const ValueMember& member : settings.as_table()) {
    if (is_one_of(resource_keys(), member.key)) {
      resources.set(member.key, member.value);
    } else if (member.key == "faults" && member.value.is_table()) {
      auto faults = faults_from_value(member.value);
      if (faults.ok()) made.faults = std::move(faults).value();
    } else if (member.key != "parallel" && is_one_of(workflow_stage_keys(), member.key)) {
      readable = false;
      diagnostics.add(member.key_pos, "'" + member.key + "' cannot differ between the candidates of a layout",
                      "parallel, ranks, nodes, threads, and keys of the kind " + stage.kind);
    } else {
      Value over = Value::make_table();
      over.set(member.key, member.value);
      merge_over(written, over);
    }
  }
  Value common = stage_common_fields().to_value(stage.common);
  merge_over(common, resources);
  const std::size_t before = diagnostics.size();
  made.common = stage_common_fields().parse(common, "stage." + stage.stage, diagnostics);
  Value inputs = Value::make_table();  // whether it starts from a model decides which bounds hold
  for (const PlannedInput& input : stage.inputs) inputs.set(input.name, "@" + input.name);
  written.set("inputs", std::move(inputs));
  made.settings = kind->resolve(written, "stage." + stage.stage, workflow_stage_keys(), diagnostics);
  if (!readable || diagnostics.size() != before) return made;
  if (resources.find("ranks") || ranks_are_fixed) written.set("ranks", made.common.ranks);
  made.dims = read_layout(stage.stage, *kind, made.settings, written, made.common, diagnostics);
  return made;
}

namespace {

Result<PlannedStage> or_first(PlannedStage made, const Diagnostics& diagnostics) {
  if (diagnostics.empty()) return made;
  const Error& first = diagnostics.errors().front();
  return make_error(ErrorCode::invalid_input, first.what, first.hint);
}

}  // namespace

Result<PlannedStage> stage_with(const PlannedStage& stage, const Value& settings) {
  if (!settings.is_table()) return make_error(ErrorCode::corrupt, "a layout is a table of settings");
  Diagnostics diagnostics;
  PlannedStage made = stage_with(stage, settings, false, diagnostics);
  return or_first(std::move(made), diagnostics);
}

PlannedStage stage_with_settings(const PlannedStage& stage, const Value& settings, Diagnostics& diagnostics) {
  Value all = settings;
  const bool has_layout = settings.find("parallel") != nullptr;
  if (!has_layout && !stage.layout_from.empty()) all.set("parallel", "@" + stage.layout_from);
  if (!has_layout && stage.layout_from.empty())
    all.set("parallel", parallel_dims_fields().to_value_changed(stage.dims));
  PlannedStage made = stage_with(stage, all, !has_layout, diagnostics);
  if (!has_layout) made.layout_from = stage.layout_from;
  return made;
}

Result<PlannedStage> stage_with_settings(const PlannedStage& stage, const Value& settings) {
  if (!settings.is_table()) return make_error(ErrorCode::corrupt, "what was found is no table of settings");
  Diagnostics diagnostics;
  PlannedStage made = stage_with_settings(stage, settings, diagnostics);
  return or_first(std::move(made), diagnostics);
}

namespace {

// In the order that a plan's file gives them: the key of a stage is taken of that.
Result<Value> as_in_a_plan(const Value& settings) {
  return parse_toml(to_toml(settings), "settings");
}

}  // namespace

Result<PlannedStage> with_found(const PlannedStage& stage, const Value& found) {
  if (stage.kind != search_kind_name) {
    LH_TRY(PlannedStage complete, stage_with_settings(stage, found));
    LH_TRY(complete.settings, as_in_a_plan(complete.settings));
    return complete;
  }
  LH_TRY(const PlannedStage target, target_of(stage));
  LH_TRY(const PlannedStage tried, stage_with_settings(target, found));
  PlannedStage made = stage;
  made.layout_from.clear();
  made.common.ranks = tried.common.ranks;
  made.common.nodes = tried.common.nodes;
  made.common.threads = tried.common.threads;
  Value* written = made.settings.find(search_target_key);
  written->set("parallel", parallel_dims_fields().to_value_changed(tried.dims));
  written->set("settings", tried.settings);
  LH_TRY(made.settings, as_in_a_plan(made.settings));
  return made;
}

Result<PlannedStage> trial_stage(const PlannedStage& target, const PlannedStage& tune, const Trial& trial,
                                 const std::vector<TaskInput>& inputs) {
  LH_TRY(PlannedStage made, stage_with(target, trial.settings));
  run_as_trial(tune, trial.name, inputs, made);
  made.common.job.resumable = "no";
  notice_early_hangs(made.common);
  shorten(made.settings, trial.steps);
  return made;
}

void run_as_trial(const PlannedStage& tune, const std::string& name, const std::vector<TaskInput>& inputs,
                  PlannedStage& made) {
  const StageCommon laid_out = made.common;
  made.common = tune.common;
  made.common.ranks = laid_out.ranks;
  made.common.nodes = laid_out.nodes;
  made.common.threads = laid_out.threads;
  made.common.needs.clear();
  made.common.retries = 0;
  made.common.infrastructure_retries = 1;
  made.common.on_failure = "continue";
  made.common.resiliency.spares = 0;
  made.common.resiliency.shrink = false;
  made.common.resiliency.restarts = 0;
  made.common.resiliency.checkpoint_interval = "as_set";
  made.stage = "trial";
  made.variant = name;
  made.needs.clear();
  made.edges.clear();
  made.inputs.clear();
  for (const TaskInput& input : inputs) {
    PlannedInput taken;
    taken.name = input.name;
    taken.paths = input.paths;
    made.inputs.push_back(std::move(taken));
  }
}

std::string candidate_name(const Value& settings) {
  std::vector<std::string> labels;
  collect_labels(settings, labels);
  std::string name;
  for (const unsigned char c : join(labels, ","))
    name += std::isalnum(c) || c == '.' || c == '_' || c == '-' || c == '+' || c == '=' || c == ','
                ? static_cast<char>(c)
                : '_';
  if (name.empty()) return "as-it-is";
  if (name.size() <= candidate_name_max) return name;
  return name.substr(0, candidate_name_max - 9) + "-" + hex64(xxh3_64(name)).substr(0, 8);
}

bool is_candidate_name(const std::string& name) {
  if (name.empty() || name.size() > candidate_name_max || !std::isalnum(static_cast<unsigned char>(name[0])))
    return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '_' || c == '-' || c == '+' || c == '=' || c == ',';
  });
}

TuneSettings tune_settings_of(const PlannedStage& tune) {
  Diagnostics reported;  // when it was planned
  return tune_fields().parse(tune.settings, "", reported, {tune_candidates_key, tune_for_key, tune_target_key});
}

std::vector<Trial> written_candidates(const PlannedStage& tune) {
  std::vector<Trial> candidates;
  const std::int64_t steps = tune_settings_of(tune).steps;
  const Value* list = tune.settings.find(tune_candidates_key);
  if (!list || !list->is_array()) return candidates;
  for (const Value& entry : list->as_array()) {
    Trial trial;
    trial.name = entry.get_string("name");
    trial.settings = entry;
    trial.settings.erase("name");
    trial.steps = steps;
    candidates.push_back(std::move(trial));
  }
  return candidates;
}

Result<PlannedStage> target_of(const PlannedStage& tune) {
  const Value* written = tune.settings.find(tune_target_key);
  const Value* settings = written ? written->find("settings") : nullptr;
  const Value* parallel = written ? written->find("parallel") : nullptr;
  if (!settings || !settings->is_table() || !parallel)
    return make_error(ErrorCode::corrupt, "the plan does not say what stage " + tune.id() + " is for");
  PlannedStage target;
  target.stage = tune.settings.get_string(tune_for_key);
  target.kind = written->get_string("kind");
  target.kind_version = static_cast<int>(written->get_integer("kind_version", 1));
  target.common = tune.common;
  target.inputs = tune.inputs;
  target.device = tune.device;
  target.settings = *settings;
  LH_TRY(target.dims, parallel_dims_fields().parse(*parallel, "parallel"));
  if (!find_stage_kind(target.kind))
    return make_error(ErrorCode::corrupt, "stage " + tune.id() + " is for a stage of the unknown kind " + target.kind);
  return target;
}

}  // namespace longhaul
