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
