// All the ways in which a model can be laid out on a number of GPUs: every combination of the dimensions that divides
// what it splits. Nothing is looked up by a model's size.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autotune/time/training_case.h"
#include "contracts/settings/training/engine_case.h"

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
  // The training that this engine will be asked for: layouts that it would refuse are none
  // (contracts/settings/training/feature_table.h). What a layout decides in it is overwritten. Not there: another
  // program's.
  std::optional<EngineCase> engine = {};
  BatchRampup rampup = {};  // its first batches are divided among the ranks, too
};

// Layouts that share their layer's times: everything but stages, replicas, schedules and ZeRO.
struct LayoutFamily {
  Precision precision = Precision::bf16;
  int tp = 1, cp = 1, ep = 1, etp = 1, micro_batch_size = 1;
  bool sp = false;
  Recompute recompute;
  TrainingLayout layout() const;
};

// The engine's case in a layout. Precisions below bf16 are the recipes that stand for them: fp8 is `delayed`, fp4 is
// `mxfp4`.
void take_layout(const TrainingLayout& layout, EngineCase& asked);

// Families in a fixed order. Errors (invalid_input): values that a list holds and that cannot be, each with the number
// that it does not divide; all of them together. unsupported: the engine refuses every one, as the error says.
Result<std::vector<LayoutFamily>> layout_families(const SearchSpace& space, const TrainingTask& task,
                                                  const Cluster& cluster);

// Calls `visit` for every layout of a family, in a fixed order.
void for_each_layout(const LayoutFamily& family, const SearchSpace& space, const TrainingTask& task,
                     const Cluster& cluster, const std::function<void(const TrainingLayout&)>& visit);

}  // namespace longhaul
