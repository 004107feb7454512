#include "contracts/plan/shrunken_layout.h"

#include <algorithm>

#include "base/text/text.h"
#include "contracts/settings/training/batch_rampup.h"

namespace longhaul {
namespace {

// The same layout with `replicas` of them, if it can be one.
std::optional<ParallelDims> with_replicas(ParallelDims dims, int replicas) {
  if (replicas % dims.dp_shard == 0) {
    dims.dp_replicate = replicas / dims.dp_shard;
  } else {
    dims.dp_replicate = 1, dims.dp_shard = replicas;
  }
  const auto resolved = resolve_dims(dims, dims.world_size());
  return resolved.ok() ? std::optional(*resolved) : std::nullopt;
}

bool holds_every_batch(const ShrinkRules& rules, const ParallelDims& dims) {
  const std::int64_t at_once = rules.micro_batch_size * dims.dp();
  return std::all_of(rules.batches.begin(), rules.batches.end(), [&](std::int64_t batch) {
    return batch % at_once == 0 && schedule_settings(rules.pipeline, dims, batch / at_once).ok();
  });
}

}  // namespace

Result<ShrinkRules> shrink_rules_of(const std::string& stage_kind, const Value& settings, const ParallelDims& dims,
                                    int nodes, int min_replicas) {
  ShrinkRules rules;
  rules.dims = dims, rules.nodes = std::max(1, nodes), rules.min_replicas = std::max(1, min_replicas);
  rules.micro_batch_size = settings.get_integer("micro_batch_size");
  const std::int64_t batch = settings.get_integer("global_batch_size");
  if (rules.micro_batch_size < 1 || batch < 1)
    return make_error(ErrorCode::unsupported, "a stage of kind " + stage_kind + " has no replicas to do without",
                      "only trainings shrink");
  BatchRampup rampup;
  if (const Value* given = settings.find("batch_rampup"); given && given->is_table()) {
    LH_TRY(rampup, batch_rampup_fields().parse(*given, "batch_rampup"));
  }
  LH_CHECK(check_batch_rampup(rampup, batch, 1));
  rules.batches = batch_sizes(rampup, batch);
  if (const Value* given = settings.find("pipeline"); given && given->is_table()) {
    LH_TRY(rules.pipeline, pipeline_fields().parse(*given, "pipeline"));
  }
  return rules;
}

std::vector<ShrunkenLayout> shrunken_layouts(const ShrinkRules& rules) {
  std::vector<ShrunkenLayout> found;
  for (int replicas = rules.dims.dp() - 1; replicas >= rules.min_replicas; --replicas) {
    const auto dims = with_replicas(rules.dims, replicas);
    if (!dims || !holds_every_batch(rules, *dims)) continue;
    const int ranks = dims->world_size(), of_node = rules.ranks_per_node();
    const int nodes = (ranks + of_node - 1) / of_node;
    if (nodes >= rules.nodes || (nodes > 1 && ranks % of_node != 0)) continue;
    found.push_back({*dims, nodes});
  }
  return found;
}

std::optional<ShrunkenLayout> shrunken_layout_on(const ShrinkRules& rules, int nodes) {
  for (const ShrunkenLayout& layout : shrunken_layouts(rules))
    if (layout.nodes <= nodes) return layout;
  return {};
}

}  // namespace longhaul
