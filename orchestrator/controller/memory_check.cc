#include "orchestrator/controller/memory_check.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>

#include "contracts/memory_plan.h"
#include "contracts/settings/training.h"

namespace longhaul {

namespace {

std::int64_t bytes_of_slurm_memory(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return 0;
  switch (end == text.data() + text.size() ? 'M' : *end) {
    case 'K':
    case 'k': return number << 10;
    case 'G':
    case 'g': return number << 30;
    case 'T':
    case 't': return number << 40;
    default: return number << 20;
  }
}

}  // namespace

Status check_stage_memory(const PlannedStage& stage, const JobPlan& job, const GrantedMemory& memory) {
  if (!stage.layout_from.empty()) return {};  // its layout is not known yet
  for (const PlannedInput& input : stage.inputs)
    if (input.name == "model") return {};
  if (stage.kind != "pretrain" || memory.bytes <= 0 || job.gpus_per_node > 0) return {};
  Diagnostics reported;
  const PretrainSettings settings = pretrain_fields().parse(stage.settings, "", reported);
  if (!reported.empty()) return {};
  const auto outline = outline_of(settings, stage.dims);
  if (!outline.ok() || outline->micro_batches.empty() || outline->micro_batches.front() < 1) return {};
  std::set<int> seen;  // nodes; those where the ranks of a pipeline stage begin stand for the others
  for (int pp = 0; pp < stage.dims.pp; ++pp) {
    RankCoordinates at;
    at.pp = pp;
    const int node = global_rank_of(stage.dims, at) / job.ranks_per_node;
    if (!seen.insert(node).second) continue;
    std::vector<int> ranks(
        static_cast<std::size_t>(std::min(job.ranks_per_node, stage.dims.world_size() - node * job.ranks_per_node)));
    std::iota(ranks.begin(), ranks.end(), node * job.ranks_per_node);
    const Status fits = check_memory(*outline, ranks, memory.bytes, memory.from);
    if (!fits.ok() && fits.error().code == ErrorCode::unavailable) return fits;
  }
  return {};
}

GrantedMemory granted_memory(const Site& site, const std::string& asked, const std::string& origin) {
  if (const std::int64_t bytes = bytes_of_slurm_memory(asked); bytes > 0) return {bytes, origin};
  return {site.config.node.memory.value, site.origin_of("node.memory")};
}

}  // namespace longhaul
