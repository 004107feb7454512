#include "orchestrator/forecast/processor_memory.h"

#include "orchestrator/forecast/stage_outline.h"
#include "orchestrator/forecast/written_layout.h"
#include "orchestrator/workflow/trials/trial_stage.h"

namespace longhaul {
namespace {

Result<NodeMemory> fullest_node(const PlannedStage& stage, const SiteConfig& site, int ranks_per_node) {
  LH_TRY(const TrainingOutline outline, stage_outline(stage, site));
  const int ranks = ranks_per_node > 0 ? ranks_per_node : stage.dims.world_size();
  NodeMemory fullest;
  for (const std::vector<int>& of_node : ranks_by_node(outline.dims, ranks)) {
    LH_TRY(const NodeMemory node, plan_node_memory(outline, of_node));
    if (node.bytes > fullest.bytes) fullest = node;
  }
  return fullest;
}

}  // namespace

Result<NodeMemory> ProcessorMemory::as_written() const {
  return fullest_node(stage, site, ranks_per_node);
}

Result<NodeMemory> ProcessorMemory::of(const TrainingLayout& layout) const {
  LH_TRY(const PlannedStage laid_out, stage_with(stage, written_over(stage.settings, layout, false)));
  return fullest_node(laid_out, site, ranks_per_node);
}

}  // namespace longhaul
