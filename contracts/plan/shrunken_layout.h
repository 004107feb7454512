// With which layouts a training can go on after it has lost nodes: fewer data-parallel replicas, the same model split,
// the same global batch in the same order. The replicas that are left take the micro-batches of the others, so a step
// takes longer and computes the same; in deterministic mode the bits are the same wherever they do not depend on the
// number of replicas (docs/workflows.md). Pure: the planner asks whether there is any, the lead which one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/value/value.h"
#include "contracts/layout/parallel_dims.h"
#include "contracts/settings/training/pipeline.h"

namespace longhaul {

// Of a training as it was asked for.
struct ShrinkRules {
  ParallelDims dims;
  int nodes = 1;
  int min_replicas = 1;  // with fewer it is not worth its nodes
  std::int64_t micro_batch_size = 1;
  std::vector<std::int64_t> batches = {1};  // global, in sequences: every one that a growing batch comes to
  PipelineSettings pipeline;

  int ranks_per_node() const { return (dims.world_size() + nodes - 1) / nodes; }
};

struct ShrunkenLayout {
  ParallelDims dims;
  int nodes = 1;  // full of ranks, as before; a single one may have fewer
};

// From a stage's resolved settings. unsupported: a kind without micro_batch_size and global_batch_size.
Result<ShrinkRules> shrink_rules_of(const std::string& stage_kind, const Value& settings, const ParallelDims& dims,
                                    int nodes, int min_replicas);

// On fewer nodes than asked for, most replicas first. dp_shard stays where it divides the number of replicas, which
// leaves every rank the memory that it had; otherwise all of them share the optimizer's state.
std::vector<ShrunkenLayout> shrunken_layouts(const ShrinkRules& rules);
// The largest of them that `nodes` nodes hold.
std::optional<ShrunkenLayout> shrunken_layout_on(const ShrinkRules& rules, int nodes);

}  // namespace longhaul
