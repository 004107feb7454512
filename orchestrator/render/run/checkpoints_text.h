// The checkpoints of a run, for `longhaul checkpoints`. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/value/value.h"

namespace longhaul {

struct ShownCheckpoint {
  std::string stage, path;
  std::int64_t step = 0;
  std::int64_t saved_ms = 0;  // when it was whole, Unix time; 0: not known
  double bytes = 0;           // of its files
  std::optional<double> loss, heldout_loss;
  bool newest = false;  // of its stage: `resume` goes on from it
  bool pinned = false;  // no rule of retention removes it
};

// A table, in the order given.
std::string checkpoints_text(const std::vector<ShownCheckpoint>& checkpoints, std::int64_t now_ms);
// Format 1. docs/reference/json.md
Value checkpoints_value(const std::string& run, const std::vector<ShownCheckpoint>& checkpoints);

}  // namespace longhaul
