// "@pretrain@500" and "@pretrain@every": what a training publishes while it goes on, as an input of other stages.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error/diagnostics.h"
#include "contracts/tasks/stage_kinds.h"
#include "orchestrator/workflow/stage_inputs.h"

namespace longhaul {

// Whether a stage's table, as written, names every milestone of another: it then becomes a matrix over their steps.
bool names_every_milestone(const Value& table);

// The stage that an input names, as far as milestones are concerned.
struct MilestoneSource {
  std::string name;
  const StageKind* kind = nullptr;
  bool is_matrix = false;
  const Value* settings = nullptr;
};

// The steps that the input takes: one, or all. Empty: it may not take them, and the diagnostics say why.
std::vector<std::int64_t> named_milestones(const std::string& stage, const StageInputText& input,
                                           const MilestoneSource& source, Diagnostics& diagnostics);

}  // namespace longhaul
