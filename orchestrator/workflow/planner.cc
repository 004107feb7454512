// Two passes over the stages. The first makes a draft of each alone (stage_draft.h); the second, here, looks at how
// they hang together (milestones, tune and search stages, references, best, loops, order). plan_writer.h writes the
// plan.
#include "orchestrator/workflow/planner.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "contracts/settings/job/resumable.h"
#include "contracts/settings/stages/hyper_search.h"
#include "orchestrator/workflow/command_files.h"
#include "orchestrator/workflow/graph.h"
#include "orchestrator/workflow/milestone_inputs.h"
#include "orchestrator/workflow/plan_writer.h"
#include "orchestrator/workflow/source/overrides.h"
#include "orchestrator/workflow/source/stage_text.h"
#include "orchestrator/workflow/source/written_hints.h"
#include "orchestrator/workflow/stage_draft.h"
#include "orchestrator/workflow/stage_fit.h"
#include "orchestrator/workflow/trials/search_plan.h"
#include "orchestrator/workflow/trials/tune_plan.h"

namespace longhaul {
namespace {

// The sections of a workflow: that there are stages, nothing else than what a workflow has, and what its header says.
WorkflowHeader read_header(const Value& root, const std::string& path, Diagnostics& diagnostics) {
  WorkflowHeader read;
  const std::vector<std::string> sections = {"workflow", "params", "stage"};
  for (const ValueMember& member : root.as_table()) {
    if (std::find(sections.begin(), sections.end(), member.key) == sections.end()) {
      const std::string nearest = nearest_word(member.key, sections);
      const bool is_stage = member.value.is_table() && member.value.find("kind") != nullptr;
      diagnostics.add(member.key_pos, "unknown section '" + member.key + "'",
                      is_stage          ? "write [stage." + member.key + "]"
                      : nearest.empty() ? "a workflow has [workflow], [params] and [stage.NAME]"
                                        : "did you mean '" + nearest + "'?");
    } else if (!member.value.is_table()) {
      diagnostics.add(member.value.pos, member.key + " is " + member.value.kind_name() + ", expected a table");
    }
  }
  const Value* stages = root.find("stage");
  if (!stages || (stages->is_table() && stages->size() == 0))
    diagnostics.add(SourcePos{path, 0, 0}, "the workflow has no stages", "add at least one [stage.NAME]");
  const Value* header = root.find("workflow");
  if (!header) {
    diagnostics.add(SourcePos{path, 0, 0}, "the workflow has no name", "add [workflow] with name = \"...\"");
  } else if (header->is_table()) {
    const std::size_t before = diagnostics.size();
    read = workflow_header_fields().parse(*header, "workflow", diagnostics);
    if (diagnostics.size() == before && !is_name(read.name))
      diagnostics.add(header->find("name")->pos, "'" + read.name + "' cannot name a workflow",
                      "use up to 64 letters, digits, '-' and '_': runs are folders of that name");
  }
  return read;
}

class Planner {
 public:
  Planner(const WorkflowRequest& request, const FileView& files)
      : request_(request), files_(files), recipes_(request.recipe_folders, files, diagnostics_) {}
  WorkflowOutcome run();

 private:
  void plan_tunes(const std::string& kind);
  void plan_tune(const StageDraft& draft, VariantDraft& variant, StageDraft& target);
  void expand_milestones();
  std::vector<VariantDraft> over_milestones(const StageDraft& draft, VariantDraft variant);
  void link();
  std::vector<int> link_variant(int index, VariantDraft& variant);
  int stage_index(const std::string& name, const SourcePos& where, const std::string& what);
  void check_consumption(const StageDraft& draft, const StageInputText& input, const StageDraft& from);
  void link_finders(int index, const VariantDraft& variant, std::vector<int>& needs);
  std::string in_folder(const std::string& path) const;
  void check_fit();
  WrittenStages written();

  const WorkflowRequest& request_;
  const FileView& files_;
  Diagnostics diagnostics_;
  RunPlan plan_;
  std::string tune_;  // the only stage that is wanted, with what it needs; "": all
  std::vector<StageDraft> drafts_;
  StageIndex index_;
  Recipes recipes_;
  Value root_;  // the workflow as written, with overrides
};

WorkflowOutcome Planner::run() {
  auto parsed = parse_toml(request_.text, request_.path);
  if (!parsed.ok()) {
    diagnostics_.add(with_syntax_hint(parsed.error(), request_.path, request_.text));
    return {std::move(plan_), {}, std::move(diagnostics_)};
  }
  root_ = std::move(*parsed);
  Value& root = root_;
  const WorkflowHeader header = read_header(root, request_.path, diagnostics_);
  plan_.workflow = header.name;
  plan_.budget_node_hours = header.budget;
  apply_overrides(request_.sets, root, diagnostics_);
  tune_ = add_tune_stage(request_.tune, root, request_.path, diagnostics_);
  const Value* params = root.find("params");
  const Value no_params = Value::make_table();
  Interpolator interpolator(params && params->is_table() ? *params : no_params, request_.site, diagnostics_);
  const Value* stages = root.find("stage");
  if (stages && stages->is_table()) {
    StageDrafter drafter(request_, header.allow_fault_injection, recipes_, interpolator, diagnostics_);
    drafts_.reserve(stages->size());
    for (const ValueMember& member : stages->as_table()) {
      index_.emplace(member.key, static_cast<int>(drafts_.size()));
      drafts_.push_back(drafter.draft_stage(member));
    }
  }
  expand_milestones();
  plan_tunes("tune");
  plan_tunes(search_kind_name);  // of stages whose layouts are planned
  link();
  if (!tune_.empty() && diagnostics_.empty()) keep_with_needs(tune_, plan_);
  // Variants of one stage repeat what is wrong with all of them.
  Diagnostics once;
  std::set<std::string> seen;
  for (const Error& error : diagnostics_.errors())
    if (seen.insert(error.message()).second) once.add(error);
  return {std::move(plan_), written(), std::move(once)};
}

int Planner::stage_index(const std::string& name, const SourcePos& where, const std::string& what) {
  const auto found = index_.find(name);
  if (found != index_.end()) return found->second;
  std::vector<std::string> names;
  for (const StageDraft& draft : drafts_) names.push_back(draft.name);
  const std::string nearest = nearest_word(name, names);
  const std::string path = join_path(request_.folder, name);
  if (nearest.empty() && what.find(".inputs.") != std::string::npos && files_.expand(path).ok()) {
    diagnostics_.add(where, what + " names the stage '" + name + "', which does not exist",
                     "@ is for stages; of the file or folder here write \"" + name + "\"");
    return -1;
  }
  diagnostics_.add(where, what + " names the stage '" + name + "', which does not exist",
                   nearest.empty()
                       ? "stages: " + join(std::vector<std::string>(
                                               names.begin(), names.begin() + std::min<std::size_t>(names.size(), 20)),
                                           ", ")
                       : "did you mean '" + nearest + "'?");
  return -1;
}

void Planner::check_consumption(const StageDraft& draft, const StageInputText& input, const StageDraft& from) {
  const std::string what = "stage." + draft.name + ".inputs." + input.name;
  if (from.kind && !input.any_kind &&
      std::find(input.kinds.begin(), input.kinds.end(), from.kind->name) == input.kinds.end())
    diagnostics_.add(input.where,
                     what + " does not take the artifact of '" + from.name + "', a " + from.kind->name + " stage",
                     input.kinds.empty() ? "it takes paths only" : "it takes: " + join(input.kinds, ", "));
  if (from.is_matrix && !from.has_best && input.milestone == 0)
    diagnostics_.add(input.where, what + " names '" + from.name + "', a matrix of several results",
                     "add best = { metric = \"" +
                         std::string(from.kind && trains(from.kind->name) ? "heldout_loss" : "...") +
                         "\", mode = \"min\" } to [stage." + from.name + "]");
  if (from.kind && from.kind->name != "command" && input.within == "out")
    diagnostics_.add(input.where,
                     what + " names a file 'out' in the artifact of '" + from.name + "', and there is none",
                     "the artifact itself is \"@" + from.name + "\"");
}

// The stages that find what this one does not say. A search tries its trials with the layout that was found for the
// stage that it is for.
void Planner::link_finders(int index, const VariantDraft& variant, std::vector<int>& needs) {
  const StageDraft& draft = drafts_[index];
  const bool is_search = draft.kind && draft.kind->name == search_kind_name;
  const auto link_to = [&](const std::string& name, const std::string& key) {
    if (name.empty()) return;
    const Value* written = variant.written.find(key);
    const SourcePos at = written ? written->pos : draft.where;
    const int from = stage_index(name, at, "stage." + draft.name + "." + key);
    if (from < 0) return;
    needs.push_back(from);
    const StageDraft& finder = drafts_[from];
    if (!is_search && finder.kind && !finder.variants.empty())
      check_found_by(draft.name, key, {finder.name, finder.kind->name, finder.variants.front().written}, at,
                     diagnostics_);
  };
  link_to(variant.layout_from, "parallel");
  link_to(variant.hyperparameters_from, "hyperparameters");
}

// A stage that names every milestone of another becomes one variant for each: evaluate/step=500.
std::vector<VariantDraft> Planner::over_milestones(const StageDraft& draft, VariantDraft variant) {
  std::vector<VariantDraft> expanded;
  std::vector<std::int64_t> steps;
  const StageInputText* first = nullptr;  // that names every milestone
  for (const StageInputText& input : variant.inputs) {
    const auto found = input.milestone == 0 ? index_.end() : index_.find(input.stage);
    if (found == index_.end()) continue;  // no milestone, or no such stage, which link() says
    const StageDraft& from = drafts_[found->second];
    if (!from.kind || from.variants.empty() || !from.variants.front().is_sound) continue;
    const auto named = named_milestones(
        draft.name, input, {from.name, from.kind, from.is_matrix, &from.variants.front().settings}, diagnostics_);
    if (input.milestone != StageInputText::every_milestone) continue;
    if (first && first->stage != input.stage)
      diagnostics_.add(input.where,
                       format("stage.{}.inputs.{} names every milestone of '{}', and inputs.{} those of '{}'",
                              draft.name, input.name, input.stage, first->name, first->stage),
                       "a stage goes over the milestones of one training; name a single step of the other");
    if (!first) first = &input, steps = named;
  }
  if (steps.empty()) return {std::move(variant)};
  for (const std::int64_t step : steps) {
    VariantDraft one = variant;
    one.name += format("{}step={}", one.name.empty() ? "" : ",", step);
    for (StageInputText& input : one.inputs)
      if (input.milestone == StageInputText::every_milestone) input.milestone = step;
    expanded.push_back(std::move(one));
  }
  return expanded;
}

void Planner::expand_milestones() {
  const auto names_one = [](const VariantDraft& variant) {
    return std::ranges::any_of(variant.inputs, [](const StageInputText& input) { return input.milestone != 0; });
  };
  for (StageDraft& draft : drafts_) {
    if (std::ranges::none_of(draft.variants, names_one)) continue;
    std::vector<VariantDraft> expanded;
    for (VariantDraft& variant : draft.variants)
      for (VariantDraft& one : over_milestones(draft, variant)) expanded.push_back(std::move(one));
    if (expanded.size() > variants_max && expanded.size() > draft.variants.size()) {
      diagnostics_.add(draft.where, format("stage.{} has more than {} variants", draft.name, variants_max),
                       "fewer milestones, or a smaller matrix");
      continue;
    }
    draft.variants = std::move(expanded);
  }
}

// A tune or search stage takes what the stage takes that it is for, and asks the scheduler for the same.
void Planner::plan_tunes(const std::string& kind) {
  for (StageDraft& draft : drafts_) {
    if (!draft.kind || draft.kind->name != kind) continue;
    for (VariantDraft& variant : draft.variants) {
      const Value* named = variant.is_sound ? variant.written.find(tune_for_key) : nullptr;
      const bool is_text = named && named->is_string();
      if (variant.is_sound && !is_text)
        diagnostics_.add(named ? named->pos : draft.where, "stage." + draft.name + ".for names no stage",
                         std::string("for = \"NAME\": the training stage whose ") +
                             (kind == "tune" ? "layout it finds" : "hyperparameters it finds"));
      const int index = is_text ? stage_index(named->as_string(), named->pos, "stage." + draft.name + ".for") : -1;
      if (index < 0) continue;
      StageDraft& target = drafts_[index];
      if (!target.variants.empty() && target.variants.front().is_sound)  // else it has been said
        plan_tune(draft, variant, target);
    }
  }
}

void Planner::plan_tune(const StageDraft& draft, VariantDraft& variant, StageDraft& target) {
  VariantDraft& tried = target.variants.front();
  TunePlanning planning{draft.name,
                        variant.written,
                        target.name,
                        target.kind,
                        target.is_matrix,
                        tried.written,
                        tried.settings,
                        tried.common,
                        tried.dims,
                        {},
                        request_.can_search_layouts,
                        request_.site.get_string("name"),
                        &request_.fault_commands};
  planning.target_from = tried.layout_from;
  for (const StageInputText& input : tried.inputs) planning.inputs.push_back(input.name);
  const std::size_t before = diagnostics_.size();
  if (draft.kind->name == search_kind_name) {
    const Value* params = root_.find("params");
    const Value none = Value::make_table();
    const SearchParams of_workflow{params ? *params : none, [this](const std::string& name) {
                                     return uses_of_param(recipes_.written_whole(root_), name);
                                   }};
    plan_search_stage(planning, of_workflow, variant.settings, variant.common, diagnostics_);
    variant.layout_from = tried.layout_from;
  } else {
    plan_tune_stage(planning, variant.settings, variant.common, diagnostics_);
    if (tried.layout_from == draft.name && !tried.written.find("ranks")) tried.common.ranks = variant.common.ranks;
  }
  variant.inputs = tried.inputs;
  variant.is_sound = diagnostics_.size() == before;
}

std::vector<int> Planner::link_variant(int index, VariantDraft& variant) {
  const StageDraft& draft = drafts_[index];
  std::vector<int> needs;
  for (const StageInputText& input : variant.inputs) {
    if (input.stage.empty()) continue;
    const int from = stage_index(input.stage, input.where, "stage." + draft.name + ".inputs." + input.name);
    if (from < 0) continue;
    needs.push_back(from);
    check_consumption(draft, input, drafts_[from]);
  }
  link_finders(index, variant, needs);
  if (variant.needs.is_array())
    for (const Value& need : variant.needs.as_array()) {
      if (!need.is_string()) continue;  // reported by the field table
      const int from = stage_index(read_need(need.as_string()).stage, need.pos, "stage." + draft.name + ".needs");
      if (from >= 0) needs.push_back(from);
    }
  return needs;
}

void Planner::link() {
  std::vector<std::vector<int>> needs(drafts_.size());
  for (std::size_t i = 0; i < drafts_.size(); ++i) {
    for (VariantDraft& variant : drafts_[i].variants) {
      const auto more = link_variant(static_cast<int>(i), variant);
      needs[i].insert(needs[i].end(), more.begin(), more.end());
    }
    std::sort(needs[i].begin(), needs[i].end());
    needs[i].erase(std::unique(needs[i].begin(), needs[i].end()), needs[i].end());
  }
  const StageOrder order = order_stages(needs);
  for (const std::vector<int>& loop : order.loops) {
    std::vector<std::string> names;
    for (int node : loop) names.push_back(drafts_[node].name);
    names.push_back(drafts_[loop[0]].name);
    diagnostics_.add(drafts_[loop[0]].where, "stages wait for each other: " + join(names, " -> "),
                     "an arrow means 'needs'; remove one of these inputs or needs");
  }
  if (order.loops.empty()) check_fit();
  plan_.stages = PlanWriter(request_.folder, files_, drafts_, index_, diagnostics_).write(order.order);
}

// A path as the workflow has it, absolute.
std::string Planner::in_folder(const std::string& path) const {
  return starts_with(path, "/") ? path : absolute_path(join_path(request_.folder, path));
}

void Planner::check_fit() {
  std::vector<FittedStage> stages;
  for (const StageDraft& draft : drafts_) {
    if (draft.variants.empty() || !draft.variants.front().is_sound) continue;
    for (const VariantDraft& variant : draft.variants) {
      if (draft.kind->name == "command" && variant.common.job.container.empty())
        check_command_files("stage." + draft.name, variant.written, variant.settings, files_, diagnostics_);
      FittedStage stage{draft.name, draft.kind->name, &variant.settings, &variant.written, {}, {}, {}, variant.dims};
      for (const StageInputText& input : variant.inputs) {
        stage.inputs.push_back(input.name);
        if (input.name == "model") stage.model_from = input.stage;
        if (input.name == "model" && input.paths.size() == 1) stage.model_folder = in_folder(input.paths.front());
        if (input.name == "teacher") stage.teacher_from = input.stage;
        if (input.name == "teacher" && input.paths.size() == 1) stage.teacher_folder = in_folder(input.paths.front());
        if (input.name == "adapter") stage.adapter_from = input.stage, stage.adapter_within = input.within;
        if (input.name == "reward") stage.reward_from = input.stage;
        if (input.name == "tokens" || input.name == "corpus") stage.text_from = input.stage;
      }
      if (variant.is_sound) stages.push_back(std::move(stage));
    }
  }
  check_stages_fit(stages, files_, diagnostics_);
}

WrittenStages Planner::written() {
  WrittenStages written;
  if (const Value* header = root_.find("workflow")) written.workflow = *header;
  written.root = root_;
  for (StageDraft& draft : drafts_)
    if (!draft.variants.empty()) written.stages.emplace(draft.name, std::move(draft.variants.front().written));
  return written;
}

}  // namespace

WorkflowOutcome plan_workflow(const WorkflowRequest& request, const FileView& files) {
  return Planner(request, files).run();
}

}  // namespace longhaul
