#include "orchestrator/workflow/plan_writer.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/workflow/source/stage_text.h"
#include "orchestrator/workflow/source/written_hints.h"

namespace longhaul {

std::vector<PlannedStage> PlanWriter::write(const std::vector<int>& order) {
  for (const StageDraft& draft : drafts_)  // also of stages in loops: all problems together
    for (const VariantDraft& variant : draft.variants)
      for (const StageInputText& input : variant.inputs)
        for (const std::string& path : input.paths)
          expand(path, input.where, "stage." + draft.name + ".inputs." + input.name);
  std::vector<PlannedStage> stages;
  if (!diagnostics_.empty()) return stages;
  std::size_t count = 0;
  for (const StageDraft& draft : drafts_) count += draft.variants.size();
  stages.reserve(count);
  for (int index : order) {
    StageDraft& draft = drafts_[index];
    for (VariantDraft& variant : draft.variants) stages.push_back(plan_stage(draft, variant));
  }
  return stages;
}

PlannedStage PlanWriter::plan_stage(const StageDraft& draft, VariantDraft& variant) {
  PlannedStage stage;
  stage.stage = draft.name;
  stage.variant = variant.name;
  stage.kind = draft.kind->name;
  stage.kind_version = draft.kind->version;
  stage.common = std::move(variant.common);
  stage.faults = std::move(variant.faults);
  stage.asked = std::move(variant.asked);
  stage.dims = variant.dims;
  stage.settings = std::move(variant.settings);
  stage.where = draft.where;
  const auto need = [&](const std::string& id, NeedEdge edge) {
    const bool is_new = std::find(stage.needs.begin(), stage.needs.end(), id) == stage.needs.end();
    if (is_new) stage.needs.push_back(id);
    if (edge == NeedEdge::afterok && stage.edge_to(id) == NeedEdge::milestone)
      stage.edges.erase(id);  // all of it is more than a milestone
    else if (edge != NeedEdge::afterok && (is_new || edge != NeedEdge::milestone))
      stage.edges[id] = edge;
  };
  for (const StageInputText& input : variant.inputs) {
    PlannedInput planned = plan_input(input);
    for (const std::string& path : input.paths) {
      const auto& found = expanded_[path];
      planned.paths.insert(planned.paths.end(), found.begin(), found.end());
    }
    for (const std::string& id : planned.stages)
      need(id, planned.milestone > 0 ? NeedEdge::milestone : NeedEdge::afterok);
    stage.inputs.push_back(std::move(planned));
  }
  if (!variant.layout_from.empty()) need(stage.layout_from = variant.layout_from, NeedEdge::afterok);
  if (!variant.hyperparameters_from.empty())
    need(stage.hyperparameters_from = variant.hyperparameters_from, NeedEdge::afterok);
  for (const std::string& text : stage.common.needs) {
    const NeedText wanted = read_need(text);
    const StageDraft& from = drafts_[index_.at(wanted.stage)];
    for (const VariantDraft& other : from.variants) {
      const std::string id = other.name.empty() ? from.name : from.name + "/" + other.name;
      need(id, wanted.edge);
    }
  }
  return stage;
}

const std::vector<std::string>& PlanWriter::expand(const std::string& path, const SourcePos& where,
                                                   const std::string& what) {
  const auto known = expanded_.find(path);
  if (known != expanded_.end() && !known->second.empty()) return known->second;
  auto found = files_.expand(starts_with(path, "/") ? path : absolute_path(join_path(folder_, path)));
  if (!found.ok())
    diagnostics_.add(
        where, what + ": " + found.error().what,
        missing_path_hint(path, what, folder_, [&](const std::string& name) { return index_.contains(name); }));
  return expanded_[path] = found.ok() ? std::move(*found) : std::vector<std::string>{};
}

PlannedInput PlanWriter::plan_input(const StageInputText& input) {
  PlannedInput planned;
  planned.name = input.name;
  planned.within = input.within;
  planned.milestone = input.milestone;
  if (input.stage.empty()) return planned;
  const auto found = index_.find(input.stage);
  if (found == index_.end()) return planned;
  const StageDraft& from = drafts_[found->second];
  for (const VariantDraft& variant : from.variants)
    planned.stages.push_back(variant.name.empty() ? from.name : from.name + "/" + variant.name);
  if (from.has_best && planned.stages.size() > 1) {
    planned.best_metric = from.best.metric;
    planned.best_is_max = from.best.mode == "max";
  }
  return planned;
}

}  // namespace longhaul
