// Room orchestrator/render/plan
// What is shown before a run exists: plan, forecasts, site, serving, size, simulation, as text, JSON or a page.
// plan_text.h is `longhaul plan`; each other header is one command's output.
// It does not read runs (render/run); for pages it borrows style and drawings from render/report.
//
// A plan for people: stages in order, what each waits for, and how it will run.
#pragma once

#include <string>

#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// `with_settings`: every setting of every stage below the table.
std::string plan_text(const RunPlan& plan, bool with_settings);

// Facts that follow from the settings, "" for kinds without: "3.4 M parameters, 32 x 512 tokens a step".
std::string planned_size_text(const PlannedStage& stage);

}  // namespace longhaul
