#include "orchestrator/forecast/stage_outline.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "contracts/settings/training/training.h"

namespace longhaul {

Result<TrainingOutline> stage_outline(const PlannedStage& stage, const SiteConfig& site) {
  const bool from_model = std::any_of(stage.inputs.begin(), stage.inputs.end(),
                                      [](const PlannedInput& input) { return input.name == "model"; });
  if (stage.kind != "pretrain" || from_model)
    return make_error(ErrorCode::unsupported, "the memory of stage " + stage.id() + " is not known before it runs",
                      "it is planned for trainings that make their own model");
  LH_TRY(const PretrainSettings settings, pretrain_fields().parse(stage.settings, ""));
  LH_TRY(TrainingOutline outline, outline_of(settings, stage.dims));
  if (outline.micro_batches.empty() || outline.micro_batches.front() < 1)
    return make_error(ErrorCode::invalid_input, "stage " + stage.id() + " has a step without micro-batches",
                      "raise global_batch_size");
  // Only x86 has what oneDNN compiles products for (engine/ops/linear/gemm.h); whether those of a site do, nothing
  // says.
  outline.compiled_products = site.node.arch != "aarch64";
  return outline;
}

std::vector<std::vector<int>> ranks_by_node(const ParallelDims& dims, int ranks_per_node) {
  std::vector<std::vector<int>> nodes;
  std::set<int> seen;
  for (int pp = 0; pp < dims.pp; ++pp) {
    RankCoordinates at;
    at.pp = pp;
    const int node = global_rank_of(dims, at) / ranks_per_node;
    if (!seen.insert(node).second) continue;
    std::vector<int> ranks(
        static_cast<std::size_t>(std::min(ranks_per_node, dims.world_size() - node * ranks_per_node)));
    std::iota(ranks.begin(), ranks.end(), node * ranks_per_node);
    nodes.push_back(std::move(ranks));
  }
  return nodes;
}

}  // namespace longhaul
