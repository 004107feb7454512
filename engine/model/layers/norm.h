// The norm that a model's shape asks for, with its parameters: RMSNorm (weight) or LayerNorm (weight and bias).
// `rows` of [rows, hidden]; `statistics` holds norm_statistics() floats per row for backward.
#pragma once

#include <utility>
#include <vector>

#include "engine/model/store/gradient_target.h"
#include "engine/model/store/parameter_store.h"

namespace longhaul {

class Norm {
 public:
  Norm() = default;  // of no use but to be assigned to
  // name: "model.norm", "transformer.h.0.ln_1", ...
  Norm(const ParameterStore& parameters, const std::string& name);

  // Of the first of its parameters in the flat arrays.
  std::int64_t begin() const { return weight_; }
  std::int64_t end() const { return (bias_ < 0 ? weight_ : bias_) + hidden_; }

  void forward(const ComputeContext& context, std::int64_t rows, ConstView x, View y, View statistics) const;
  // sum = a + b + column_bias [hidden] (empty: none), y = norm(sum).
  void add_forward(const ComputeContext& context, std::int64_t rows, ConstView a, ConstView b, ConstView column_bias,
                   View sum, View y, View statistics) const;
  // dx written, or accumulated; the parameters' gradients accumulate.
  void backward(const ComputeContext& context, std::int64_t rows, ConstView dy, ConstView x, View statistics, View dx,
                const GradientTarget& target, bool accumulate_dx) const;

  // Zeroes the gradients of its parameters.
  void clear(const ComputeContext& context, const GradientTarget& target) const;
  void say_ready(const GradientTarget& target) const;
  // Their flat ranges.
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges() const;

 private:
  const ParameterStore* parameters_ = nullptr;
  std::int64_t hidden_ = 0;
  float eps_ = 0;
  std::int64_t weight_ = 0, bias_ = -1;  // begins in the flat arrays; -1: RMSNorm
};

}  // namespace longhaul
