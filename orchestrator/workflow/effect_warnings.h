// Settings that are allowed and do not do what they seem to: said before anything runs, for the figures of a training
// do not show them.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/workflow/layout/written_stages.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

struct SettingEffect {
  std::vector<std::string> keys;  // of the setting; the first that is written is its place
  std::string what, hint;
};
// Of one training stage: epochs beside steps (where somebody `writes_epochs`), a warm-up of more than half of the
// steps, a learning rate above 1. Nothing of other stages.
std::vector<SettingEffect> setting_effects(const PlannedStage& stage, bool writes_epochs);

// The same of all stages as sentences, each with its place where the user wrote it. Pure.
std::vector<std::string> effect_warnings(const WrittenStages& written, const RunPlan& plan);

}  // namespace longhaul
