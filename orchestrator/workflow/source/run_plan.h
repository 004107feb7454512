// Room orchestrator/workflow/source
// The plan as data, and the steps from text towards it that need no model.
// run_plan.h is what a run keeps; interpolate.h, overrides.h, matrix.h and recipes.h expand the text.
// file_view.h is all that planning may see of the disk; shell_context.h finds places in shell scripts.
// It does not know the planner or layouts: all other rooms of workflow include it.
//
// A run's plan: the workflow after parameters, recipes and matrices are expanded and checked. It is what the controller
// works on and what resolved.toml of a run holds; nothing in it refers back to the workflow file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/value/value.h"
#include "contracts/layout/parallel_dims.h"
#include "contracts/settings/job/faults.h"
#include "contracts/tasks/stage_kinds.h"

namespace longhaul {

struct PlannedInput {
  std::string name;
  // "@stage": the ids of the planned stages that may stand behind it. More than one only when that stage is a matrix;
  // then `best_metric` chooses among their artifacts' figures.
  std::vector<std::string> stages;
  std::string best_metric;  // name of a figure, "" if there is one stage only
  bool best_is_max = false;
  std::int64_t milestone = 0;      // "@stage@500": 500, published while the one stage goes on; 0: its artifact
  std::string within;              // "@stage/file": the part below the artifact ("file"), "" for all of it
  std::vector<std::string> paths;  // raw input: absolute files and folders, globs expanded
};

// When a need counts as met, in Slurm's terms: it ended well; it ended, well or not; it failed. And beyond them: the
// milestones that inputs name are there, whether it has ended or not.
enum class NeedEdge { afterok, afterany, afternotok, milestone };
const char* to_string(NeedEdge edge);

struct PlannedStage {
  std::string stage;
  std::string variant;  // "" or "lr=1e-05,lora_rank=16"
  std::string kind;
  int kind_version = 1;
  StageCommon common;
  ParallelDims dims;  // resolved against common.ranks
  Value settings;     // complete
  std::vector<PlannedInput> inputs;
  std::vector<std::string> needs;         // ids of stages that must have ended before (inputs included)
  std::map<std::string, NeedEdge> edges;  // of the needs that are not `afterok`
  // Id of the tune stage that finds the layout ("@layout"): `dims`, and what else of this stage it changes, are known
  // when that one has ended (trial_stage.h). "": as they stand here.
  std::string layout_from;
  // Id of the search stage that finds hyperparameters ("@search"), in the same way.
  std::string hyperparameters_from;
  // On what it computes, "gpu" or "cpu", and what decided it where the stage did not (preflight/stage_device.h); "":
  // not decided, as in plans of older releases. `settings` say the same where they have a device.
  std::string device, device_why;
  double forecast_s =
      0;                 // of a stage on processors without a time limit: its job's wall time comes from it; 0: unknown
  FaultSettings faults;  // to be injected
  SourcePos where;       // of [stage.x] in the workflow
  Value asked;           // the common keys as written, for their places; null in a plan read from a file

  // "sft" or "sft/lr=1e-05": unique in a plan, and the folder below stages/.
  NeedEdge edge_to(const std::string& need) const {
    const auto found = edges.find(need);
    return found == edges.end() ? NeedEdge::afterok : found->second;
  }
  std::string id() const { return variant.empty() ? stage : stage + "/" + variant; }
  // Where the user wrote a common key ("nodes", "job.partition"); the stage's own place if he did not.
  SourcePos place_of(const std::string& key) const;
  // Steps of the milestones of a stage that inputs name.
  std::vector<std::int64_t> milestones_of(const std::string& source) const;
};

struct RunPlan {
  static constexpr int format = 1;
  std::string workflow;              // name
  double budget_node_hours = 0;      // nothing more is submitted once it is used up; 0: no limit
  std::vector<PlannedStage> stages;  // every stage after those it needs

  const PlannedStage* find(const std::string& id) const;
};
Value run_plan_to_value(const RunPlan& plan);
Result<RunPlan> run_plan_from_value(const Value& value);

}  // namespace longhaul
