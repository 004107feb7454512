#include "orchestrator/runs/fork.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/files/file_retry.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "contracts/records/checkpoint_format.h"
#include "contracts/records/milestone.h"
#include "contracts/settings/job/resumable.h"
#include "contracts/settings/stages/alignment.h"
#include "contracts/tasks/stage_kinds.h"
#include "orchestrator/runs/milestone_scanner.h"
#include "orchestrator/runs/saved_state.h"
#include "orchestrator/workflow/source/overrides.h"

namespace longhaul {
namespace {

constexpr const char* start_input = "start_checkpoint";

std::set<std::string> all_before(const RunPlan& plan, const std::string& id) {
  std::set<std::string> before;
  std::vector<std::string> open = {id};
  while (!open.empty()) {
    const PlannedStage* stage = plan.find(open.back());
    open.pop_back();
    if (!stage) continue;
    std::vector<std::string> needs = stage->needs;
    for (const PlannedInput& input : stage->inputs) needs.insert(needs.end(), input.stages.begin(), input.stages.end());
    for (const std::string& need : needs)
      if (before.insert(need).second) open.push_back(need);
  }
  return before;
}

// One `--set`, taken apart.
struct Change {
  std::string text, stage;
  std::vector<std::string> path;
  Value value;
};

Result<Change> parse_change(const std::string& set) {
  const std::size_t equals = set.find('=');
  std::vector<std::string> path = split(set.substr(0, equals), '.');
  if (equals == std::string::npos || path.size() < 3 || path[0] != "stage")
    return make_error(ErrorCode::invalid_input, "--set " + set + " is not stage.NAME.KEY=VALUE",
                      "a fork changes the settings of stages; params were replaced when its run was made");
  LH_TRY(const Value parsed, parse_toml("value = " + set.substr(equals + 1), "--set " + set));
  const Value* value = parsed.find("value");
  if (!value || parsed.size() != 1)
    return make_error(ErrorCode::invalid_input, "--set " + set + ": the value is not one TOML value");
  return Change{set, path[1], {path.begin() + 2, path.end()}, *value};
}

bool has_field(const std::vector<FieldInfo>& fields, const std::string& name) {
  return std::any_of(fields.begin(), fields.end(), [&](const FieldInfo& field) { return field.name == name; });
}

// The ranks and the layout that a stage has after its changes. Ranks that only draw answers (rollout.ranks) come and go
// beside a layout that stays, unless the fork says how many ranks there are (`says_ranks`): then it lays out the rest.
void lay_out(const PlannedStage& before, bool says_ranks, PlannedStage& stage, Diagnostics& diagnostics) {
  const int drew = rollout_ranks_of(before.kind, before.settings),
            drawing = rollout_ranks_of(stage.kind, stage.settings);
  if (drawing == drew && stage.common.ranks == before.common.ranks) return;
  if (!says_ranks) stage.common.ranks += drawing - drew;
  const SourcePos where{"stage." + stage.stage, 0, 0};
  const int ranks = stage.common.ranks, nodes = std::max(1, stage.common.nodes);
  const std::string beside = drawing > 0 ? format(" with rollout.ranks = {}", drawing) : "";
  if (ranks <= drawing)
    return diagnostics.add(where, format("{} ranks{}: none is left to train", ranks, beside),
                           format("use ranks = {} or more", drawing + 1));
  if (drawing != drew && ranks % nodes != 0)
    diagnostics.add(where, format("{} ranks{} cannot be shared evenly by {} nodes", ranks, beside, nodes),
                    "change rollout.ranks by a multiple of them, or nodes as well");
  if (drawing > 0 && stage.common.resiliency.shrink)
    diagnostics.add(where, format("resiliency.shrink{}: a smaller layout leaves no ranks that only draw", beside),
                    "leave one of them out");
  ParallelDims dims = stage.dims;
  dims.dp_replicate = 0;
  const auto resolved = resolve_dims(dims, ranks - drawing);
  if (resolved.ok())
    stage.dims = *resolved;
  else
    diagnostics.add(where, resolved.error().what + (drawing > 0 ? format(" ({} less those that draw)", ranks) : ""),
                    resolved.error().hint);
}

// The stage's settings beside its inputs, by name: some settings need some of them.
Value with_inputs(const PlannedStage& stage) {
  Value all = stage.settings, inputs = Value::make_table();
  for (const PlannedInput& input : stage.inputs) inputs.set(input.name, true);
  all.set("inputs", inputs);
  return all;
}

// Applies one change to one stage; what is wrong goes to the diagnostics.
void apply(const Change& change, PlannedStage& stage, Diagnostics& diagnostics) {
  const StageKind* kind = find_stage_kind(stage.kind);
  const SourcePos where{"--set " + change.text, 0, 0};
  const std::string& key = change.path.front();
  if (stage.variant.find(change.path.back() + "=") != std::string::npos)
    return diagnostics.add(where, format("stage {} is a matrix over {}", stage.stage, change.path.back()),
                           "the variants would become the same");
  if (kind && has_field(kind->fields, key)) {
    set_at_path(stage.settings, change.path, change.value, where);
    stage.settings = kind->resolve(with_inputs(stage), "stage." + stage.stage, {"inputs"}, diagnostics);
    if (key == "device") stage.device = stage.settings.get_string("device"), stage.device_why.clear();
    if (stage.device == "auto")
      diagnostics.add(where, "device = \"auto\" was decided when the run was planned", "say cpu or gpu");
  } else if (has_field(stage_common_fields().describe(), key)) {
    Value common = stage_common_fields().to_value(stage.common);
    set_at_path(common, change.path, change.value, where);
    stage.common = stage_common_fields().parse(common, "stage." + stage.stage, diagnostics);
  } else {
    std::vector<std::string> known;
    if (kind)
      for (const FieldInfo& field : kind->fields) known.push_back(field.name);
    const std::string nearest = nearest_word(key, known);
    diagnostics.add(
        where, format("stage {} of kind {} has no setting '{}' that a fork can change", stage.stage, stage.kind, key),
        nearest.empty() ? "" : "did you mean '" + nearest + "'?");
  }
}

// What the checkpoint decides, and settings cannot.
void check_fixed(const PlannedStage& before, const PlannedStage& after, std::int64_t step, Diagnostics& diagnostics) {
  const auto changed = [&](const char* key) {
    const Value* a = before.settings.find(key);
    const Value* b = after.settings.find(key);
    return a && b && !(*a == *b);
  };
  const SourcePos where{"stage." + after.stage, 0, 0};
  if (changed("model"))
    diagnostics.add(where, "the model's shape cannot change: the checkpoint's weights have the old one",
                    "leave model.* as it is, or train anew with `longhaul run`");
  if (changed("seed"))
    diagnostics.add(where,
                    "the seed cannot change: it decides the order of the data that the checkpoint is in the middle of");
  const std::int64_t steps = after.settings.get_integer("steps");
  if (steps > 0 && steps <= step)
    diagnostics.add(where,
                    format("steps = {} ends before anything is left to do: the checkpoint is of step {}", steps, step),
                    format("steps = {} or more", step + 1));
}

// Are answers that were drawn and judged ahead of the checkpoint those that the fork would draw?
bool keeps_answers(const PlannedStage& before, const PlannedStage& after) {
  const auto of_answers = [](const PlannedStage& stage) {
    Value some = Value::make_table();
    for (const char* key : {"method", "reward", "beta", "precision", "sequence_length", "global_batch_size"})
      if (const Value* one = stage.settings.find(key)) some.set(key, *one);
    Value rollout = stage.settings.find("rollout") ? *stage.settings.find("rollout") : Value::make_table();
    for (const char* key : {"ranks", "threads"}) rollout.erase(key);  // who draws
    some.set("rollout", rollout);
    return some;
  };
  return of_answers(before) == of_answers(after);
}

// What a stage keeps beside the checkpoint `name`, as far as it has any: the critic, and answers drawn ahead where the
// fork would draw the same.
Status link_companions(const std::string& run_dir, const std::string& fork_dir, const std::string& stage,
                       const std::string& name, bool with_answers) {
  const std::string from = parent_path(checkpoints_folder(run_dir, stage)),
                    to = parent_path(checkpoints_folder(fork_dir, stage));
  for (const std::string companion : {critic_folder_name, ahead_folder_name}) {
    const std::string kept = join_path(join_path(from, companion), name),
                      target = join_path(join_path(to, companion), name);
    if (!file_exists(kept) || (companion == ahead_folder_name && !with_answers)) continue;
    LH_CHECK(is_directory(kept) ? link_tree(kept, target) : link_file(kept, target));
  }
  return {};
}

// Who names a milestone was planned with the settings of before.
void check_milestones(const RunPlan& plan, Diagnostics& diagnostics) {
  for (const PlannedStage& stage : plan.stages)
    for (const PlannedInput& input : stage.inputs) {
      const PlannedStage* source = input.milestone > 0 ? plan.find(input.stages.front()) : nullptr;
      if (!source) continue;
      const auto steps = milestone_steps(source->settings);
      if (!std::binary_search(steps.begin(), steps.end(), input.milestone))
        diagnostics.add(
            {"stage." + source->stage, 0, 0},
            format("{} takes its milestone of step {}, which it would no longer publish", stage.id(), input.milestone),
            format("leave steps and {} so that it does", milestone_setting));
    }
}

}  // namespace

Result<ForkRequest> parse_fork_from(const std::string& text) {
  ForkRequest request;
  const std::size_t at = text.rfind('@');
  request.stage = text.substr(0, at);
  if (at != std::string::npos) {
    const std::string step = text.substr(at + 1);
    const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), request.step);
    if (error != std::errc() || end != step.data() + step.size() || request.step < 0)
      return make_error(ErrorCode::invalid_input, "--from " + text + ": '" + step + "' is not a step", "STAGE@STEP");
  }
  return request;
}

Result<std::string> meant_fork_stage(const std::vector<std::string>& saved, const std::vector<std::string>& sets,
                                     const std::string& meant) {
  if (saved.empty())
    return make_error(ErrorCode::not_found, "no stage of the run has a checkpoint",
                      "none was saved yet, or gc deleted them: longhaul checkpoints lists them");
  const auto name_of = [](const std::string& id) { return id.substr(0, id.find('/')); };
  std::vector<std::string> changed;  // of the first stage that is, all variants
  for (const std::string& id : saved) {
    if (!changed.empty() && name_of(id) != name_of(changed.front())) break;
    const std::string prefix = "stage." + name_of(id) + ".";
    if (std::ranges::any_of(sets, [&](const std::string& set) { return starts_with(set, prefix); }))
      changed.push_back(id);
  }
  if (changed.size() > 1)
    return make_error(ErrorCode::invalid_input, "several variants have a checkpoint: " + join(changed, ", "),
                      "name one: --from " + changed.front());
  if (!changed.empty()) return changed.front();
  return std::ranges::find(saved, meant) != saved.end() ? meant : saved.back();
}

Result<RunPlan> forked_plan(const RunPlan& plan, const ForkRequest& request, std::int64_t step) {
  const PlannedStage* from = plan.find(request.stage);
  if (!from) {
    std::vector<std::string> ids;
    for (const PlannedStage& stage : plan.stages) ids.push_back(stage.id());
    return make_error(ErrorCode::not_found, "the run has no stage '" + request.stage + "'",
                      "its stages: " + join(ids, ", "));
  }
  if (!trains(from->kind))
    return make_error(ErrorCode::invalid_input,
                      format("stage {} is of kind {}, which has no checkpoints", request.stage, from->kind),
                      "name a stage of kind pretrain, sft or align");
  const std::set<std::string> before = all_before(plan, request.stage);
  RunPlan forked = plan;
  Diagnostics diagnostics;
  std::set<std::string> says_ranks;  // names of stages
  for (const std::string& set : request.sets) {
    const auto change = parse_change(set);
    if (!change.ok()) {
      diagnostics.add(change.error());
      continue;
    }
    if (change->path == std::vector<std::string>{"ranks"}) says_ranks.insert(change->stage);
    bool found = false;
    for (PlannedStage& stage : forked.stages) {
      if (stage.stage != change->stage) continue;
      found = true;
      if (before.count(stage.id()))
        diagnostics.add({"--set " + set, 0, 0},
                        format("stage {} lies before {}: its data is what the checkpoint was trained on", stage.stage,
                               request.stage),
                        "change " + request.stage + " or what comes after it");
      else
        apply(*change, stage, diagnostics);
    }
    if (!found) diagnostics.add({"--set " + set, 0, 0}, "the run has no stage '" + change->stage + "'");
  }
  for (std::size_t i = 0; i < forked.stages.size(); ++i) {
    PlannedStage& stage = forked.stages[i];
    lay_out(plan.stages[i], says_ranks.contains(stage.stage), stage, diagnostics);
  }
  for (const PlannedStage& stage : forked.stages)
    if (stage.id() == request.stage) check_fixed(*from, stage, step, diagnostics);
  check_milestones(forked, diagnostics);
  LH_CHECK(diagnostics.to_status("nothing was forked"));
  return forked;
}

Result<std::int64_t> find_fork_step(const std::string& run_dir, const ForkRequest& request) {
  LH_TRY(const std::vector<std::int64_t> steps, checkpoint_steps(checkpoints_folder(run_dir, request.stage)));
  if (steps.empty())
    return make_error(ErrorCode::not_found, format("stage {} of {} has no checkpoint", request.stage, run_dir),
                      "it has not saved one, or gc deleted it");
  if (request.step < 0) return steps.back();
  if (std::find(steps.begin(), steps.end(), request.step) != steps.end()) return request.step;
  std::vector<std::string> there;
  there.reserve(steps.size());
  for (const std::int64_t step : steps) there.push_back(std::to_string(step));
  return make_error(ErrorCode::not_found, format("stage {} has no checkpoint of step {}", request.stage, request.step),
                    "there are: " + join(there, ", "));
}

Result<std::string> fork_run_folder(const std::string& run_dir, const std::string& runs_dir, const ForkRequest& request,
                                    const std::string& programs_dir, const std::string& software, const Clock& clock) {
  LH_TRY(const FrozenRun old, read_frozen_run(run_dir));
  if (!old.plan.find(request.stage)) return forked_plan(old.plan, request, 0).error();
  LH_TRY(const std::int64_t step, find_fork_step(run_dir, request));
  LH_TRY(const RunPlan plan, forked_plan(old.plan, request, step));
  const std::string name = checkpoint_folder_name(step);
  const std::string checkpoint = join_path(checkpoints_folder(run_dir, request.stage), name);

  RunOrigin origin;
  LH_TRY(origin.workflow_text, read_file(join_path(run_dir, "workflow.toml")));
  LH_TRY(origin.site_text, read_file(join_path(run_dir, "site.toml")));
  LH_TRY(origin.constants_text, text_if_there(join_path(run_dir, constants_file_name)));
  LH_TRY(origin.measured_text, text_if_there(join_path(run_dir, measured_file_name)));
  origin.workflow_path = old.workflow_path;
  origin.artifact_root = old.artifact_root;
  origin.programs_dir = programs_dir;
  origin.software = software;
  origin.driver = old.driver;
  if (const auto site = parse_toml(origin.site_text, "site.toml"); site.ok()) {
    origin.access = access_of(*site);
    if (site->get_string("scheduler") == "slurm") origin.environment = request.environment;
  }
  origin.add = [&](const std::string& beside, const std::string& folder, FrozenRun& frozen) -> Status {
    LH_CHECK(link_tree(checkpoint, join_path(checkpoints_folder(beside, request.stage), name)));
    LH_CHECK(link_companions(run_dir, beside, request.stage, name,
                             keeps_answers(*old.plan.find(request.stage), *plan.find(request.stage))));
    // What it published on the way there is the fork's, too.
    const std::string from = milestones_folder(run_dir, request.stage);
    for (const std::int64_t published : published_milestones(from))
      if (published <= step)
        LH_CHECK(link_tree(milestone_folder(from, published),
                           milestone_folder(milestones_folder(beside, request.stage), published)));
    // The checkpoint is an input like any other: part of the stage's key, so that no other run takes the result of a
    // fork for one of its own. Its manifest holds the digest of every entry.
    LH_CHECK(make_directories(join_path(beside, "fork")));
    LH_TRY(const std::string manifest, read_file(join_path(checkpoint, "checkpoint.json")));
    LH_CHECK(write_file_atomic(join_path(beside, "fork/checkpoint.json"), manifest));
    for (PlannedStage& stage : frozen.plan.stages) {
      if (stage.id() != request.stage) continue;
      PlannedInput input;
      input.name = start_input;
      input.paths = {join_path(folder, "fork/checkpoint.json")};
      std::erase_if(stage.inputs, [](const PlannedInput& one) { return one.name == start_input; });
      stage.inputs.push_back(std::move(input));
    }
    frozen.fork = {old.name, request.stage, step, request.sets};
    return {};
  };
  return create_run(runs_dir, plan, origin, clock);
}

}  // namespace longhaul
