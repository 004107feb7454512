// The first pass of the planner: each stage alone. References to params, the recipe, the matrix, settings, layout,
// faults and inputs are read as written; what a stage says of another one is left to the second pass (planner.cc).
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "orchestrator/workflow/planner.h"
#include "orchestrator/workflow/source/interpolate.h"
#include "orchestrator/workflow/source/matrix.h"
#include "orchestrator/workflow/source/recipes.h"
#include "orchestrator/workflow/stage_inputs.h"

namespace longhaul {

struct VariantDraft {
  std::string name;
  StageCommon common;
  ParallelDims dims;
  FaultSettings faults;
  std::string layout_from;           // name of the tune stage; "": the layout is written
  std::string hyperparameters_from;  // name of the search stage, in the same way
  Value settings;
  std::vector<StageInputText> inputs;
  Value needs;            // as written, with positions
  Value written;          // the stage's table, for the places of its settings
  Value asked;            // its common keys
  bool is_sound = false;  // no problem was found in it alone
};

struct StageDraft {
  std::string name;
  const StageKind* kind = nullptr;  // null: unknown, reported
  SourcePos where;
  bool is_matrix = false;
  bool has_best = false;
  BestRule best;
  std::vector<VariantDraft> variants;
};

using StageIndex = std::unordered_map<std::string, int>;  // name of a stage -> its place among the drafts

// Makes drafts of the stages of one workflow. Every problem goes to `diagnostics`; a draft with one is not sound, and
// still says as much as could be read. What is given must outlive the drafter.
class StageDrafter {
 public:
  // `faults_allowed`: the workflow's header lets faults be injected into its stages.
  StageDrafter(const WorkflowRequest& request, bool faults_allowed, Recipes& recipes, Interpolator& interpolator,
               Diagnostics& diagnostics)
      : request_(request),
        faults_allowed_(faults_allowed),
        recipes_(recipes),
        interpolator_(interpolator),
        diagnostics_(diagnostics) {}
  // `member`: the name of a stage and its table, as they stand under [stage].
  StageDraft draft_stage(const ValueMember& member);

 private:
  VariantDraft draft_variant(const StageDraft& draft, const MatrixVariant& variant);
  void read_best(const Value& table, StageDraft& draft);

  const WorkflowRequest& request_;
  const bool faults_allowed_;
  Recipes& recipes_;
  Interpolator& interpolator_;
  Diagnostics& diagnostics_;
};

}  // namespace longhaul
