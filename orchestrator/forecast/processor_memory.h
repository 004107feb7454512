// The memory of trainings on processors: the engine's own plan stands in place of the search's closed form, which is
// that of GPUs.
#pragma once

#include "autotune/time/training_case.h"
#include "contracts/plan/memory_plan.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

inline constexpr double any_memory = 1e18;  // bytes; of a search that leaves memory to this

// The ranks of a node share its memory.
struct ProcessorMemory {
  const PlannedStage& stage;  // its vocabulary known
  const SiteConfig& site;
  int ranks_per_node;  // 0: all

  double there_is() const { return static_cast<double>(site.node.memory.value); }  // of a node; 0: not known
  bool fits(const NodeMemory& node) const { return there_is() == 0 || static_cast<double>(node.bytes) <= there_is(); }
  // Of the node whose ranks will hold most together, as the stage is written, or in this layout. Errors as
  // stage_outline and stage_with have them.
  Result<NodeMemory> as_written() const;
  Result<NodeMemory> of(const TrainingLayout& layout) const;
};

}  // namespace longhaul
