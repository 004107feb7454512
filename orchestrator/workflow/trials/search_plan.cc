#include "orchestrator/workflow/trials/search_plan.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "autotune/hyper/halving.h"
#include "autotune/trials/layout_artifact.h"
#include "base/text/text.h"
#include "contracts/settings/job/resumable.h"
#include "contracts/settings/stages/hyper_search.h"
#include "contracts/settings/training/training.h"
#include "orchestrator/workflow/source/figure_check.h"
#include "orchestrator/workflow/trials/search_trial.h"
#include "orchestrator/workflow/trials/trial_stage.h"

namespace longhaul {
namespace {

constexpr const char* batch_setting = "global_batch_size";

class SearchPlanner {
 public:
  SearchPlanner(const TunePlanning& planning, const SearchParams& params, Diagnostics& diagnostics)
      : planning_(planning),
        params_(params),
        diagnostics_(diagnostics),
        where_("stage." + planning.stage),
        space_(planning.written.find(search_space_key)) {}

  void plan(Value& settings);

 private:
  void read_trial_settings();
  void read_length();
  void find_params();
  void check_space();
  void try_values();
  void check_rungs();
  SourcePos place_of(const std::string& key) const {
    const Value* at = planning_.written.find(key);
    return at ? at->pos : planning_.written.pos;
  }
  SourcePos place_of(const HyperParameter& p) const {
    return space_ ? place_of_parameter(*space_, p.name, planning_.written.pos) : planning_.written.pos;
  }
  std::string name_of(const HyperParameter& p) const { return where_ + ".space.\"" + p.name + "\""; }
  // The settings that a parameter is: its name, or what params.NAME stands for.
  std::vector<std::string> paths_of(const HyperParameter& p) const {
    const auto found = stands_for_.find(p.name);
    return found == stands_for_.end() ? std::vector<std::string>{p.name} : found->second;
  }

  const TunePlanning& planning_;
  const SearchParams& params_;
  Diagnostics& diagnostics_;
  const std::string where_;
  const Value* space_;
  HyperSearchSettings search_;
  PlannedStage target_;  // as its trials are
  std::map<std::string, std::vector<std::string>> stands_for_;
};

void SearchPlanner::read_trial_settings() {
  target_ = target_stage(planning_);
  const Value* trial = planning_.written.find(search_trial_key);
  if (!trial || !trial->is_table()) return;
  bool sound = true;
  const std::vector<std::string> common = workflow_stage_keys();
  for (const ValueMember& member : trial->as_table()) {
    const bool length = member.key == "steps" || member.key == "epochs";
    if (!length && std::find(common.begin(), common.end(), member.key) == common.end()) continue;
    sound = false;
    diagnostics_.add(member.key_pos,
                     format("{}.trial.{}: trials have that of {}", where_, member.key,
                            length ? "their rung" : "the stage that they are for"),
                     length ? "set max_steps and min_steps" : "remove it");
  }
  if (sound) target_ = stage_with_settings(target_, *trial, diagnostics_);
}

void SearchPlanner::read_length() {
  if (search_.max_steps == 0) search_.max_steps = configured_steps(planning_.target_settings);
  if (search_.max_steps == 0)
    diagnostics_.add(planning_.written.pos,
                     format("{} has no max_steps, and stage.{} does not say its steps", where_, planning_.target),
                     "max_steps = the steps of a whole training");
  else if (search_.min_steps > search_.max_steps && !planning_.written.find("max_steps"))
    diagnostics_.add(place_of("min_steps"), format("{}: min_steps = {} is above the {} steps of stage.{}", where_,
                                                   search_.min_steps, search_.max_steps, planning_.target));
}

void SearchPlanner::find_params() {
  const std::string target = "stage." + planning_.target;
  for (const HyperParameter& p : search_.space) {
    if (!starts_with(p.name, "params.") || !params_.declared.find(p.name.substr(7))) continue;
    std::vector<std::string>& paths = stands_for_[p.name];
    const std::size_t before = diagnostics_.size();
    for (const ParamUse& use : params_.uses(p.name.substr(7))) {
      if (use.section == where_) continue;
      if (use.section != target || !use.whole)
        diagnostics_.add(
            place_of(p),
            format("{}: {} uses it{}", name_of(p), use.text(), use.section == target ? " within a text" : ""),
            "a search can vary a param that only " + target +
                " uses, as the whole value of a setting; vary the setting itself");
      else
        paths.push_back(join(use.path, "."));
    }
    if (paths.empty() && diagnostics_.size() == before)
      diagnostics_.add(place_of(p), name_of(p) + ": nothing uses it, so that all trials would be the same",
                       format("write the setting of {} that is meant, or \"${{{}}}\" there", target, p.name));
  }
}

void SearchPlanner::check_space() {
  std::map<std::string, std::string> taken;  // path -> parameter
  for (HyperParameter& p : search_.space) {
    const std::size_t before = diagnostics_.size();
    std::vector<HyperParameter> one = {p};
    check_hyper_space(one, planning_.kind->fields, params_.declared, where_ + ".space", diagnostics_, place_of(p));
    if (!stands_for_.contains(p.name)) p.integer = one.front().integer;
    for (const std::string& path : paths_of(p)) {
      if (stands_for_.contains(p.name)) {  // is held to what it stands for
        one = {p};
        one.front().name = path;
        check_hyper_space(one, planning_.kind->fields, Value::make_table(), where_ + ".space", diagnostics_,
                          place_of(p));
        p.integer = one.front().integer;
      }
      if (const auto [other, is_new] = taken.emplace(path, p.name); !is_new && diagnostics_.size() == before)
        diagnostics_.add(place_of(p),
                         format("{} is {}, which varies already as \"{}\"", name_of(p), path, other->second),
                         "leave one of them out");
    }
  }
}

// One parameter at a time; what only goes wrong together is an outcome of that trial.
void SearchPlanner::try_values() {
  for (const HyperParameter& p : search_.space) {
    ValueArray values = p.values;
    if (!p.is_list())
      for (const double end : {p.min, p.max})
        values.push_back(p.integer ? Value(static_cast<std::int64_t>(end)) : Value(end));
    for (const Value& value : values) {
      Value configuration = Value::make_table();
      for (const std::string& path : paths_of(p)) configuration.set(path, value);
      const auto made = stage_with_settings(target_, as_settings(configuration, {}));
      if (made.ok()) continue;
      diagnostics_.add(place_of(p), format("{} = {}: {}", name_of(p), inline_toml(value), made.error().what),
                       made.error().hint);
    }
  }
}

// Every schedule and every warm-up that a trial may have.
void SearchPlanner::check_rungs() {
  const hyper::Halving halving(search_, target_.settings.get_integer(batch_setting));
  const Value none = Value::make_table();
  const Value* written = target_.settings.find("optimizer");
  auto optimizer = optimizer_fields().parse(written ? *written : none, "");
  if (!optimizer.ok()) return;  // has been said
  Value largest = Value::make_table();
  std::vector<std::string> schedules = {optimizer->lr_schedule};
  SourcePos at = planning_.written.pos;
  for (const HyperParameter& p : search_.space)
    for (const std::string& path : paths_of(p)) {
      double most = p.max;
      for (const Value& value : p.values) most = value.is_number() ? std::max(most, value.as_number()) : most;
      if (path == batch_setting) largest.set(batch_setting, most);
      if (path == "optimizer.warmup_steps") optimizer->warmup_steps = static_cast<std::int64_t>(most), at = place_of(p);
      if (path != "optimizer.lr_schedule") continue;
      at = place_of(p), schedules.clear();
      for (const Value& value : p.values) schedules.push_back(value.as_string());
    }
  const std::int64_t shortest = halving.steps(0, largest);
  for (const std::string& schedule : schedules) {
    optimizer->lr_schedule = schedule;
    if (const Status same = hyper::check_prefixes(*optimizer, shortest); !same.ok()) {
      const bool own = schedule != "constant" && schedule != "inverse_sqrt" && schedules.size() == 1;
      diagnostics_.add(at, where_ + ": " + same.error().what,
                       own ? "let trials have a constant rate, [" + where_ +
                                 ".trial] optimizer = { lr_schedule = \"constant\" }; the stage keeps its own"
                           : same.error().hint);
    }
  }
  if (target_.settings.get_string("sampler") == "megatron")
    diagnostics_.add(planning_.written.pos,
                     where_ +
                         ": sampler = \"megatron\" orders the data by the number of steps: a trial that goes on "
                         "would see other samples than the training that was never stopped",
                     "let trials have another order, [" + where_ + ".trial] sampler = \"shuffled\"");
}

void SearchPlanner::plan(Value& settings) {
  Diagnostics reported;  // by the kind's own reading
  search_ = parse_hyper_search(settings, where_, reported, {search_trial_key}, false);
  const std::size_t before = diagnostics_.size();
  if (search_.space.empty())
    diagnostics_.add(
        place_of(search_space_key), where_ + ".space names nothing that may vary",
        "for example [" + where_ + ".space.\"optimizer.lr\"] with min = 1e-4, max = 1e-2, scale = \"log\"");
  read_trial_settings();
  check_figure(target_.kind, search_.metric, where_ + ".metric", place_of("metric"), diagnostics_);
  read_length();
  find_params();
  check_space();
  if (diagnostics_.size() == before) try_values();
  if (search_.max_steps > 0 && diagnostics_.size() == before) check_rungs();
  if (diagnostics_.size() > before) return;
  settings = Value::make_table();
  settings.set(search_for_key, planning_.target);
  const Value own = hyper_search_to_value(search_);
  for (const ValueMember& member : own.as_table()) settings.set(member.key, member.value);
  Value params = Value::make_table();
  for (const auto& [name, paths] : stands_for_) params.set(name, ValueArray(paths.begin(), paths.end()));
  if (params.size() > 0) settings.set(search_params_key, std::move(params));
  Value target = Value::make_table();
  target.set("kind", target_.kind);
  target.set("kind_version", target_.kind_version);
  target.set("parallel", parallel_dims_fields().to_value_changed(target_.dims));
  target.set("settings", target_.settings);
  settings.set(search_target_key, std::move(target));
}

}  // namespace

void plan_search_stage(const TunePlanning& planning, const SearchParams& params, Value& settings, StageCommon& common,
                       Diagnostics& diagnostics) {
  if (!check_tuned_stage(planning, "hyperparameters", diagnostics)) return;
  common = common_of_trials(planning);
  if (!planning.written.find("time_limit")) common.time_limit = planning.target_common.time_limit;
  common.ranks = planning.target_common.ranks;
  SearchPlanner(planning, params, diagnostics).plan(settings);
}

void check_found_by(const std::string& stage, const std::string& key, const FinderStage& finder, const SourcePos& where,
                    Diagnostics& diagnostics) {
  const bool is_layout = key == "parallel";
  const std::string what = format("stage.{}.{} names '{}', ", stage, key, finder.name);
  const std::string kind = is_layout ? tune_kind_name : search_kind_name;
  if (finder.kind != kind)
    diagnostics.add(
        where, what + "a " + finder.kind + " stage",
        (is_layout ? "a layout is what a stage of the kind " : "hyperparameters are what a stage of the kind ") + kind +
            " finds");
  else if (finder.written.get_string(tune_for_key) != stage)
    diagnostics.add(where, what + "which finds the " + (is_layout ? "layout" : "hyperparameters") + " of another stage",
                    format("add a {} stage with for = \"{}\"", kind, stage));
}

void check_hyperparameters_key(const std::string& where, const std::string& kind, const Value& table,
                               Diagnostics& diagnostics) {
  const Value* found = table.find("hyperparameters");
  if (!found) return;
  if (search_stage_of(table).empty())
    diagnostics.add(found->pos, where + ".hyperparameters names no search stage",
                    "hyperparameters = \"@search\"; to set them, write the settings themselves");
  else if (!trains(kind))
    diagnostics.add(found->pos, where + ".hyperparameters: the kind '" + kind + "' does not train",
                    "they are found for pretrain, sft and align");
}

std::string search_stage_of(const Value& written) {
  const Value* named = written.find("hyperparameters");
  const std::string text = named && named->is_string() ? named->as_string() : "";
  return starts_with(text, "@") ? text.substr(1) : "";
}

}  // namespace longhaul
