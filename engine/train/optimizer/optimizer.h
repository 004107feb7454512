// Room engine/train/optimizer
// The update of the weights: AdamW over the share of a rank, learning rate, moments on a disk.
// optimizer.h updates; lr_schedule.h has the formula of every schedule; moment_stream.h moves moments.
// expert_bias.h is the update of a router's bias.
// It knows neither how gradients were summed nor what a step is.
//
// AdamW over the flat parameters that this rank's layout owns: two moments of each, in f32 or bf16 as
// optimizer.moments says, decay as optimizer.no_decay says (contracts/model/weight_decay.h).
#pragma once

#include <vector>

#include "contracts/settings/training/training.h"
#include "engine/checkpoint/state/training_state.h"
#include "engine/model/store/parameter_store.h"
#include "engine/ops/pointwise/adamw.h"
#include "engine/train/optimizer/moment_stream.h"

namespace longhaul {

// What the setting stands for.
StateTypes state_types(const OptimizerSettings& settings);

class Optimizer {
 public:
  // seed: the run's, of stochastic rounding. offloaded: where the moments are, of the settings' types and as many as
  // the layout owns; borrowed; null: in memory.
  Optimizer(const ParameterLayout& layout, const OptimizerSettings& settings, std::uint64_t seed,
            MemoryAccount* account = nullptr, MomentStream* offloaded = nullptr);

  // One update with `grad_scale * gradient`, packed as layout.owned(). `step` counts from 1 (bias correction).
  // An error comes from where the moments are; weights and moments are then partly updated.
  Status update(const ComputeContext& context, ParameterStore& store, double lr, std::int64_t step, float grad_scale,
                std::span<const float> gradient);

  // Packed as layout.owned().
  StateArray exp_avg() { return offloaded_ ? offloaded_->exp_avg() : StateArray(exp_avg_, exp_avg_.device()); }
  StateArray exp_avg_sq() {
    return offloaded_ ? offloaded_->exp_avg_sq() : StateArray(exp_avg_sq_, exp_avg_sq_.device());
  }

 private:
  // Of the packed arrays. Rounded stochastically, each is of one parameter; else neighbours of the same kind are
  // joined.
  struct Range {
    FlatRange packed;
    bool decay = true;
    std::uint64_t stream = 0;  // of the parameter
    AdamWRounding rounding;
  };
  OptimizerSettings settings_;
  std::uint64_t seed_;
  bool stochastic_;
  std::vector<Range> ranges_;
  MomentStream* offloaded_;
  Tensor exp_avg_, exp_avg_sq_;  // empty where they are offloaded
};

}  // namespace longhaul
