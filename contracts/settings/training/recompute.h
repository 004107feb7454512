// What of a layer's activations is computed again in the backward pass instead of being kept: memory for time, no
// result changes (Chen et al. 2016, 1604.06174; selective: Korthikanti et al. 2022, 2205.05198, section 5).
#pragma once

#include <string>
#include <vector>

#include "base/error/result.h"
#include "contracts/schema/field_table.h"

namespace longhaul {

struct RecomputeSettings {
  std::vector<std::string> modules;  // of the names below; empty: nothing
  std::int64_t layers = 0;           // the first so many of each pipeline stage; 0: all
};
const FieldTable<RecomputeSettings>& recompute_fields();

// Not kept, and so computed again:
struct Recompute {
  bool norms = false;         // "norms": both normalised inputs
  bool attention = false;     // "attention": q, k, v and the attention's output, from the normalised input
  bool activation = false;    // "activation": the feed-forward's activation, from its first matrix' output
  bool feed_forward = false;  // "feed_forward": that output as well
  bool block = false;         // "block": all but the layer's input
  std::int64_t layers = 0;    // of a stage; 0: all

  // What layer `index` of its stage does.
  Recompute of_layer(std::int64_t index) const { return layers == 0 || index < layers ? *this : Recompute(); }
  bool any() const { return norms || attention || activation || feed_forward || block; }
};
// invalid_input names an unknown module and all that there are.
Result<Recompute> recompute_from(const RecomputeSettings& settings);

}  // namespace longhaul
