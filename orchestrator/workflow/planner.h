// Room orchestrator/workflow
// From the text of a workflow to a checked plan.
// planner.h runs all steps: stage_draft.h each stage alone, graph.h their order, plan_writer.h the plan.
// stage_inputs.h and milestone_inputs.h read inputs.
// stage_fit.h checks stages against each other; command_steps.h programs that share a job.
// It knows no scheduler and no run: the same text gives the same plan everywhere.
//
// Workflow text to a checked plan: parse, --set, ${...}, recipes, matrices, settings, inputs, layouts, graph. Pure but
// for what it asks of the FileView. All problems are collected and reported together; the plan may be used only without
// any. The same request gives the same plan.
#pragma once

#include <string>
#include <vector>

#include "base/error/diagnostics.h"
#include "base/value/value.h"
#include "contracts/settings/job/fault_commands.h"
#include "orchestrator/workflow/layout/written_stages.h"
#include "orchestrator/workflow/source/file_view.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

struct WorkflowRequest {
  std::string text;                         // TOML
  std::string path;                         // as the user named it: stands in messages
  std::string folder;                       // absolute; relative inputs start here
  std::vector<std::string> sets;            // "params.steps=10"
  Value site = Value::make_table();         // what ${site.NAME} may name
  FaultCommands fault_commands;             // of the site
  std::vector<std::string> recipe_folders;  // searched in order for <recipe>.toml
  bool can_search_layouts = false;          // a tune stage may leave its candidates to a search
  // Not empty: only what finds the layout of this stage (the stage itself, or the tune stage for it) is planned: the
  // tune stage, one with defaults where the workflow has none, and what it needs.
  std::string tune;
};

struct WorkflowOutcome {
  RunPlan plan;
  WrittenStages written;  // of the plan's stages
  Diagnostics diagnostics;
};
WorkflowOutcome plan_workflow(const WorkflowRequest& request, const FileView& files);

struct WorkflowHeader {
  std::string name;
  std::string description;
  double budget = 0;
  bool allow_fault_injection = false;
};
const FieldTable<WorkflowHeader>& workflow_header_fields();

}  // namespace longhaul
