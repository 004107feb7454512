// AdamW over the flat parameters that this rank's layout owns: two f32 moments of each, decay as
// optimizer.no_decay says (contracts/weight_decay.h).
#pragma once

#include <vector>

#include "contracts/settings/training.h"
#include "engine/model/parameter_store.h"

namespace longhaul {

class Optimizer {
 public:
  Optimizer(const ParameterLayout& layout, const std::vector<std::string>& no_decay, MemoryAccount* account = nullptr);

  // One update with `grad_scale * gradient`, packed as layout.owned(). `step` counts from 1 (bias correction).
  void update(const ComputeContext& context, ParameterStore& store, const OptimizerSettings& settings, double lr,
              std::int64_t step, float grad_scale, std::span<const float> gradient);

  // Packed as layout.owned().
  std::span<float> exp_avg() { return exp_avg_.span<float>(); }
  std::span<float> exp_avg_sq() { return exp_avg_sq_.span<float>(); }
  std::int64_t bytes() const { return exp_avg_.bytes() + exp_avg_sq_.bytes(); }

 private:
  struct Range {
    std::int64_t begin, end;
    bool decay;
  };
  std::vector<Range> ranges_;  // of the packed arrays; neighbours of the same kind, joined
  Tensor exp_avg_, exp_avg_sq_;
};

}  // namespace longhaul
