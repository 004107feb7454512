// All the ways in which a model can be laid out on a number of GPUs: every combination of the dimensions that divides
// what it splits. Nothing is looked up by a model's size.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "autotune/time/training_case.h"

namespace longhaul {

// What a user holds fixed or leaves open. An empty list: every value that divides.
struct SearchSpace {
  int gpus = 1;
  std::vector<int> tp, cp, ep, etp, pp, vp, zero, micro_batch_size;
  std::vector<bool> sp;  // only where tp > 1
  std::vector<Precision> precision = {Precision::bf16};
  std::vector<PipelineKind> schedule;
  bool recompute = true;  // false: never
  bool offload = true;    // moments in the host's memory may be tried
  int tp_max = 0;         // 0: two domains of fast links
};

// Layouts that share their layer's times: everything but stages, replicas, schedules and ZeRO.
struct LayoutFamily {
  Precision precision = Precision::bf16;
  int tp = 1, cp = 1, ep = 1, etp = 1, micro_batch_size = 1;
  bool sp = false;
  Recompute recompute;
  TrainingLayout layout() const;
};

// Families in a fixed order. Errors (invalid_input): values that a list holds and that cannot be, each with the number
// that it does not divide; all of them together.
Result<std::vector<LayoutFamily>> layout_families(const SearchSpace& space, const TrainingTask& task,
                                                  const Cluster& cluster);

// Calls `visit` for every layout of a family, in a fixed order.
void for_each_layout(const LayoutFamily& family, const SearchSpace& space, const TrainingTask& task,
                     const Cluster& cluster, const std::function<void(const TrainingLayout&)>& visit);

}  // namespace longhaul
