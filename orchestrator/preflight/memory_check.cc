#include "orchestrator/preflight/memory_check.h"

#include <charconv>

#include "contracts/plan/memory_plan.h"
#include "orchestrator/forecast/stage_outline.h"

namespace longhaul {

std::int64_t slurm_memory_bytes(const std::string& text) {
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

Status check_stage_memory(const PlannedStage& stage, const JobPlan& job, const SiteConfig& site,
                          const GrantedMemory& memory) {
  if (!stage.layout_from.empty()) return {};  // its layout is not known yet
  const bool on_gpus = stage.device.empty() ? job.gpus_per_node > 0 : stage.device == "gpu";
  if (memory.bytes <= 0 || on_gpus) return {};
  const auto outline = stage_outline(stage, site);
  if (!outline.ok()) return {};
  for (const std::vector<int>& ranks : ranks_by_node(stage.dims, job.ranks_per_node)) {
    const Status fits = check_memory(*outline, ranks, memory.bytes, memory.from);
    if (!fits.ok() && fits.error().code == ErrorCode::unavailable) return fits;
  }
  return {};
}

GrantedMemory granted_memory(const Site& site, const std::string& asked, const std::string& origin) {
  if (const std::int64_t bytes = slurm_memory_bytes(asked); bytes > 0) return {bytes, origin};
  return {site.config.node.memory.value, site.origin_of("node.memory")};
}

}  // namespace longhaul
