#include "orchestrator/workflow/trials/tune_plan.h"

#include <algorithm>
#include <set>

#include "base/text/text.h"
#include "contracts/settings/job/faults.h"
#include "contracts/settings/job/resumable.h"
#include "contracts/settings/training/training.h"
#include "orchestrator/workflow/trials/trial_stage.h"

namespace longhaul {
namespace {

const Seconds trial_time_limit{1800};

// What a tune stage has from the stage that it is for, and may not say itself.
const std::vector<std::string>& keys_of_target() {
  static const std::vector<std::string> keys = {"parallel", "ranks", "nodes", "threads"};
  return keys;
}
// What is the tune stage's own, whatever the target says.
const std::vector<std::string>& own_keys() {
  static const std::vector<std::string> keys = {"needs", "time_limit", "retries", "infrastructure_retries",
                                                "on_failure"};
  return keys;
}
bool holds(const std::vector<std::string>& list, const std::string& key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

}  // namespace

namespace {

// Of a training in phases, one of them alone; what is wrong with its phases is said where they stand.
Value settings_of_trials(const TunePlanning& planning) {
  const auto alone = phase_alone(planning.target_settings, planning.written.get_string(tune_phase_key));
  return alone.ok() ? *alone : planning.target_settings;
}

}  // namespace

PlannedStage target_stage(const TunePlanning& planning) {
  PlannedStage target;
  target.stage = planning.target;
  target.kind = planning.kind->name;
  target.kind_version = planning.kind->version;
  target.common = planning.target_common;
  target.dims = planning.target_dims;
  target.layout_from = planning.target_from;
  target.settings = settings_of_trials(planning);
  for (const std::string& input : planning.inputs) {
    target.inputs.emplace_back();
    target.inputs.back().name = input;
  }
  return target;
}

namespace {

void check_phase(const TunePlanning& planning, Diagnostics& diagnostics) {
  const Value* phase = planning.written.find(tune_phase_key);
  if (!phase || !phase->is_string() || phase->as_string().empty()) return;
  const std::string what = format("stage.{}.phase = \"{}\"", planning.stage, phase->as_string());
  if (!planning.target_settings.find("phase"))
    diagnostics.add(phase->pos, what + ": '" + planning.target + "' has no phases", "remove it");
  else if (const auto alone = phase_alone(planning.target_settings, phase->as_string());
           !alone.ok() && alone.error().code == ErrorCode::not_found)
    diagnostics.add(phase->pos, what + ": '" + planning.target + "' has no such phase", alone.error().hint);
}

}  // namespace

bool check_tuned_stage(const TunePlanning& planning, const std::string& finds, Diagnostics& diagnostics) {
  const Value* named = planning.written.find(tune_for_key);
  const SourcePos at = named ? named->pos : planning.written.pos;
  const std::string what = format("stage.{}.for names '{}'", planning.stage, planning.target);
  const std::size_t before = diagnostics.size();
  if (!trains(planning.kind->name))
    diagnostics.add(at, what + ", a " + planning.kind->name + " stage",
                    "it finds " + finds + " of pretrain, sft and align");
  else if (planning.target_is_matrix)
    diagnostics.add(at, what + ", a matrix of several trainings", "name a stage that is one of them");
  else if (planning.target_settings.find("phase") && finds != "layouts")
    diagnostics.add(at, what + ", which trains in phases; this version finds " + finds + " of one phase only",
                    "name a copy of the stage that has one phase alone");
  else
    check_phase(planning, diagnostics);
  for (const std::string& key : keys_of_target())
    if (const Value* own = planning.written.find(key))
      diagnostics.add(
          own->pos,
          format("stage.{}.{}: trials have that of the stage that they are for, or their own", planning.stage, key),
          finds == "layouts" ? "remove it, or write it into a candidate" : "remove it");
  return diagnostics.size() == before;
}

namespace {

// What a layout may differ in: nothing that changes what is computed, but for what a micro-batch is.
void check_candidate_keys(const TunePlanning& planning, const Value& entry, Diagnostics& diagnostics) {
  static const std::vector<std::string> keys = {
      "name",    "faults",    "parallel",  "ranks",     "nodes",         "threads",      "pipeline",
      "overlap", "recompute", "optimizer", "precision", "deterministic", "cp_attention", "micro_batch_size"};
  static const std::vector<std::string> optimizer_keys = {"offload", "offload_dir", "moments", "rounding"};
  const auto look = [&](const Value& table, const std::vector<std::string>& known, const std::string& prefix) {
    for (const ValueMember& member : table.as_table()) {
      if (holds(known, member.key)) continue;
      const std::string nearest = nearest_word(member.key, known);
      diagnostics.add(member.key_pos,
                      format("stage.{}.candidates: '{}{}' is no part of a layout", planning.stage, prefix, member.key),
                      nearest.empty()
                          ? format("write it into [stage.{}]; a layout has: {}", planning.target, join(known, ", "))
                          : format("did you mean '{}{}'?", prefix, nearest));
    }
  };
  look(entry, keys, "");
  const Value* optimizer = entry.find("optimizer");
  if (optimizer && optimizer->is_table()) look(*optimizer, optimizer_keys, "optimizer.");
}

// One candidate as it will be run: named, with its layout and ranks in full.
Value planned_candidate(const TunePlanning& planning, const PlannedStage& target, const Value& entry,
                        Diagnostics& diagnostics, int& ranks) {
  Value settings = entry;
  settings.erase("name");
  if (Value* faults = settings.find("faults")) {
    const FaultTarget kind{target.kind, ranks_max, planning.fault_commands,
                           planning.target_common.resiliency.health != "off"};
    const FaultSettings parsed = parse_faults(*faults, "stage." + planning.stage + ".candidates", kind, diagnostics);
    *faults = faults_to_value(parsed);
  }
  const PlannedStage made = stage_with(target, settings, planning.target_written.find("ranks") != nullptr, diagnostics);
  ranks = made.common.ranks;
  Value planned = Value::make_table();
  Value written = entry;
  for (const char* key : {"name", "faults"}) written.erase(key);
  planned.set("name", entry.get_string("name", candidate_name(written)));
  planned.set("parallel", parallel_dims_fields().to_value_changed(made.dims));
  planned.set("ranks", made.common.ranks);
  for (const ValueMember& member : settings.as_table())
    if (member.key != "parallel" && member.key != "ranks") planned.set(member.key, member.value);
  return planned;
}

// Without candidates: what the search has to know is known, or can be when the stage's turn comes.
void check_search(const TunePlanning& planning, Diagnostics& diagnostics) {
  const std::string where = "stage." + planning.stage + ": no candidates given and ";
  const char* hint =
      "write them, for example candidates = [{ parallel = { tp = 2 } }, { parallel = { dp_shard = 2 } }]";
  const Value* inputs = planning.target_written.find("inputs");
  const Value* model = inputs ? inputs->find("model") : nullptr;
  if (!planning.can_search)
    diagnostics.add(planning.written.pos, where + "this version has no search", hint);
  else if (planning.kind->name == "align" || planning.kind->name == "reward")
    diagnostics.add(planning.written.pos, where + format("layouts of {} stages are not searched", planning.kind->name),
                    hint);
  else if (model && model->is_string() && !starts_with(model->as_string(), "@"))
    diagnostics.add(planning.written.pos,
                    where + "'" + planning.target +
                        "' begins with a model that no stage of this workflow makes, whose "
                        "shape a search cannot know",
                    hint);
}

void plan_candidates(const TunePlanning& planning, Value& settings, StageCommon& common, Diagnostics& diagnostics) {
  const Value* list = settings.find(tune_candidates_key);
  if (!list) {
    check_search(planning, diagnostics);
    return;
  }
  const PlannedStage target = target_stage(planning);
  Value planned = Value::make_array();
  std::set<std::string> names;
  for (const Value& entry : list->as_array()) {
    const Value* given = entry.find("name");
    if (given && (!given->is_string() || !is_candidate_name(given->as_string())))
      diagnostics.add(given->pos, "this cannot name a candidate", "use up to 100 letters, digits and .,=_+-");
    const std::size_t before = diagnostics.size();
    check_candidate_keys(planning, entry, diagnostics);
    if (diagnostics.size() > before) continue;
    int ranks = 1;
    planned.push_back(planned_candidate(planning, target, entry, diagnostics, ranks));
    common.ranks = std::max(common.ranks, ranks);
    const std::string name = planned.as_array().back().get_string("name");
    if (!names.insert(name).second)
      diagnostics.add(entry.pos, format("stage.{} has two candidates '{}'", planning.stage, name),
                      "give them different names, or remove one");
  }
  settings.set(tune_candidates_key, std::move(planned));
}

}  // namespace

StageCommon common_of_trials(const TunePlanning& planning) {
  Value asked = Value::make_table();
  for (const FieldSlot& slot : stage_common_fields().slots()) {
    const std::string& key = slot.info.name;
    const Value* own = planning.written.find(key);
    const Value* from = own || holds(own_keys(), key) ? own : planning.target_written.find(key);
    if (from) asked.set(key, *from);
  }
  Diagnostics reported;  // where they were written
  return stage_common_fields().parse(asked, "", reported);
}

void plan_tune_stage(const TunePlanning& planning, Value& settings, StageCommon& common, Diagnostics& diagnostics) {
  if (!check_tuned_stage(planning, "layouts", diagnostics)) return;
  common = common_of_trials(planning);
  if (!planning.written.find("time_limit")) common.time_limit = trial_time_limit;
  common.ranks = planning.target_written.find("ranks") ? planning.target_common.ranks : 1;
  plan_candidates(planning, settings, common, diagnostics);
  settings.set(tune_for_key, planning.target);
  Value target = Value::make_table();
  target.set("kind", planning.kind->name);
  target.set("kind_version", planning.kind->version);
  target.set("ranks", common.ranks);
  target.set("nodes", common.nodes);
  target.set("threads", common.threads);
  target.set("parallel", parallel_dims_fields().to_value_changed(planning.target_dims));
  target.set("site", planning.site);
  target.set("settings", settings_of_trials(planning));
  settings.set(tune_target_key, std::move(target));
}

std::string add_tune_stage(const std::string& wanted, Value& workflow, const std::string& path,
                           Diagnostics& diagnostics) {
  if (wanted.empty()) return {};
  Value* stages = workflow.find("stage");
  const Value* named = stages && stages->is_table() ? stages->find(wanted) : nullptr;
  if (!named || !named->is_table()) {
    std::vector<std::string> names;
    if (stages && stages->is_table())
      for (const ValueMember& member : stages->as_table()) names.push_back(member.key);
    diagnostics.add(SourcePos{path, 0, 0}, "the workflow has no stage '" + wanted + "'",
                    "stages: " + join(names, ", "));
    return {};
  }
  if (named->get_string("kind") == "tune" || named->get_string("kind") == "search") return wanted;
  for (const ValueMember& member : stages->as_table())
    if (member.value.get_string("kind") == "tune" && member.value.get_string(tune_for_key) == wanted) return member.key;
  ValueMember added;
  added.key = wanted + "-layout";
  added.value = Value::make_table();
  added.value.pos = added.key_pos = named->pos;
  added.value.set("kind", "tune");
  added.value.set(tune_for_key, wanted);
  const std::string name = added.key;
  stages->as_table().push_back(std::move(added));
  return name;
}

void keep_with_needs(const std::string& stage, RunPlan& plan) {
  std::set<std::string> wanted = {stage};
  for (auto one = plan.stages.rbegin(); one != plan.stages.rend(); ++one)  // every stage stands behind its needs
    if (wanted.contains(one->id())) wanted.insert(one->needs.begin(), one->needs.end());
  std::erase_if(plan.stages, [&](const PlannedStage& one) { return !wanted.contains(one.id()); });
}

}  // namespace longhaul
