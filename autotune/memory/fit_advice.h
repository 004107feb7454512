// What to say when nothing fits: by how much the layout that needs least misses, and which single change would make it
// fit. Everything is asked of framework_memory.h; nothing is a table of sizes.
// Threads: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autotune/memory/framework_memory.h"

namespace longhaul {

struct FitRequest {
  MemoryProfile profile;
  FrameworkModel model;
  FrameworkTraining training;  // the smallest of what was tried
  double device_bytes = 0;     // of one GPU
  double host_bytes = 0;       // of a node's memory that each of its GPUs may use; 0: no offload
  int gpus_per_node = 8;
  bool may_recompute = true, may_offload = true, may_relayout = true, may_add_gpus = true;
};

struct FitChange {
  std::string what;            // "recompute = [\"block\"]", "parallel.tp = 8", "64 GPUs instead of 32"
  FrameworkTraining training;  // with it
  double bytes = 0;            // of the worst stage then
  int gpus = 0;
};

struct FitAdvice {
  double needed_bytes = 0, missing_bytes = 0;  // of the worst stage as it is; missing <= 0: it fits
  int pp_rank = 0;
  std::string largest;             // what most of it is for
  std::vector<FitChange> changes;  // each alone makes it fit, cheapest first: same GPUs before more of them
  bool fits() const { return missing_bytes <= 0; }
  std::string text() const;  // one paragraph for a person
};

// Same number of GPUs: recomputation of feed-forwards, of everything but a layer's input; the optimizer's state in host
// memory; zero one stage higher; tp, pp or cp larger at dp_shard's cost. More GPUs: the smallest multiple that fits, up
// to 4096 times as many, with dp_shard larger (zero > 0), else with pp.
FitAdvice advise_fit(const FitRequest& question);

}  // namespace longhaul
