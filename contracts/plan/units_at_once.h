// How many of a model's units travel at once, and which do not travel together: without a bound, how much memory
// messages take would be chance, and the plan of memory could not know it.
#pragma once

#include <span>
#include <vector>

#include "contracts/model/parameter_layout.h"

namespace longhaul {

// Sums of units' gradients over the ranks that are under way at once; the next one starts when the oldest is done
// (engine/train/gradients/gradient_sum.h).
inline constexpr int sums_at_once = 2;

// By unit of a layout: those that hold more than twice what most do, the ends of a model, where their vocabulary is.
// A message of one of them does not travel beside other kinds of messages of one
// (engine/train/gradients/bucket_gradient_sum.h, engine/model/store/unit_gather.h).
std::vector<bool> large_units(std::span<const ShardUnit> units);

}  // namespace longhaul
