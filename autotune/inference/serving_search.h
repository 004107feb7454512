// All ways to serve a model on some GPUs that are worth a thought, each with its memory and its rates: tp x weights x
// cache x chunk x block x slots, as many replicas as there are GPUs for. A few thousand; they are all computed.
#pragma once

#include <optional>

#include "autotune/inference/serving_load.h"
#include "autotune/inference/serving_memory.h"

namespace longhaul {

struct ServingCandidate {
  ServingLayout layout;
  ServingMemory memory;
  ServingRates rates;          // of one replica, under the task's load
  int slots_fit = 0;           // of the task's context
  double token_rate = 0;       // per second, of all replicas; what they could do, at a rate
  double gpu_token_rate = 0;   // of one GPU
  bool fits = false;           // in memory, at least one slot
  bool meets_targets = false;  // and is not overloaded
};

// The shape is resolved, here and below. What is wrong with the question, all of it together: lengths, shares, a tp
// that does not divide the heads, formats that the GPU does not have. Errors: invalid_input.
Status check_serving(const ModelShape& shape, const ServingTask& task, const Cluster& cluster);
// Sizes of tensor parallelism that divide heads, key and value heads (or are multiples of them) and inner width, and
// that fast links join.
std::vector<int> serving_tp_sizes(const ModelShape& shape, const ServingTask& task, const Cluster& cluster);
ServingCandidate serving_candidate(const ModelShape& shape, const ServingTask& task, const ServingLayout& layout,
                                   const ServingPlace& place);
// The question is well formed. Of candidates that do not fit, one for each tp, weights and cache.
std::vector<ServingCandidate> serving_candidates(const ModelShape& shape, const ServingTask& task,
                                                 const ServingPlace& place);

// Does a serve the goal better than b? Those that meet the targets come first, then those that fit.
bool is_better(const ServingTask& task, const ServingCandidate& a, const ServingCandidate& b);
// Of those within a hundredth of the best in the goal, the one that is best in the other: tokens/s that cost no time,
// and time that costs no tokens/s. Null: there is none at all.
const ServingCandidate* best_serving(const ServingTask& task, const std::vector<const ServingCandidate*>& all);
// Of those that fit: by ascending ITL, each with more tokens/s, by a hundredth, than all before.
std::vector<ServingCandidate> pareto_front(const std::vector<ServingCandidate>& all);

}  // namespace longhaul
