// Room autotune/inference
// How a model is best served on given GPUs, and what a configured server will need and deliver.
// serving_task.h is the question; serving_search.h goes through all layouts; serving_plan.h names the best.
// Memory is in serving_memory.h, the time of one step in serving_time.h, rates under load in serving_load.h.
// It does not use the memory formulas of training (autotune/memory): a server keeps caches and no gradients.
//
// The best way to serve a model on a cluster, and why not the others.
#pragma once

#include <string>

#include "autotune/inference/serving_search.h"
#include "autotune/time/forecast_source.h"

namespace longhaul {

// What somebody would ask about: "tp = 4", "int4 weights", "fp8 cache", "chunks of 512", "64 slots". The best of its
// kind under the same goal, and why it is not the winner. Formats that the task does not allow are among them, as
// offers.
struct ServingAlternative {
  std::string name, why;
  bool allowed = true;
  ServingCandidate best;
};

struct ServingPlan {
  ServingTask task;
  ServingPlace place;
  ServingCandidate winner;
  std::string reason;  // in a sentence
  std::vector<ServingAlternative> alternatives;
  std::vector<ServingCandidate> pareto;
  std::vector<std::string> notes;  // GPUs that stay idle, a GPU type without measurements, queues that a rate needs
  int considered = 0, fitting = 0;

  // What the rates are made from; 90 % of servers like the winner bring tokens/s between its rate over 1 + spread() and
  // its rate times that.
  ForecastSource source() const { return source_of_constants(place.cluster.gpu); }
  double spread() const {
    return 1.645 * (place.cluster.gpu.measured ? place.serving.spread_seen : place.serving.spread_new);
  }
  double low_rate() const { return winner.token_rate / (1 + spread()); }
  double high_rate() const { return winner.token_rate * (1 + spread()); }
};

// Errors: invalid_input, all that is wrong with the question together; unavailable where nothing fits (by how much and
// what would make it fit) or nothing meets the targets (how near the nearest comes).
Result<ServingPlan> plan_serving(const ModelShape& shape, const ServingTask& task, const Cluster& cluster,
                                 const TimeConstants& constants);

// The settings of a `deploy` stage under their names in contracts/settings/stages/inference.h; what its server cannot
// be given yet stands in comments.
std::string serving_toml(const ModelShape& shape, const ServingPlan& plan);
// Tables for people: the winner, its memory and its step, the alternatives, the Pareto front.
std::string serving_report(const ServingPlan& plan);

}  // namespace longhaul
