// Experts that see every row: a gated feed-forward, whole on every rank, of whose gradients each rank has an addend.
#pragma once

#include <cstdint>

#include "contracts/settings/training/recompute.h"
#include "engine/model/experts/moe_state.h"
#include "engine/model/store/gradient_target.h"
#include "engine/model/store/parameter_store.h"

namespace longhaul {

class SharedExperts {
 public:
  SharedExperts(const ParameterStore& parameters, MoeState& state, const Recompute& again, int layer);

  bool any() const { return width_ > 0; }
  std::int64_t end() const { return end_; }  // of their parameters in the flat arrays, where there are any

  // The activation of x [m, h] and, with `inputs`, what it comes from; then its product y [m, h], written.
  void activate(const ComputeContext& context, ExpertActivations& kept, View x, bool inputs);
  void output(const ComputeContext& context, ExpertActivations& kept, View y);
  // From dy [m, h], in two halves: what the weights' backward needs, and then dx [m, h] += the gradient.
  void backward(const ComputeContext& context, ExpertActivations& kept, MoeGradients& g, View dy);
  void backward_input(const ComputeContext& context, MoeGradients& g, View dx);
  void backward_weight(const ComputeContext& context, ExpertActivations& kept, MoeGradients& g, View x,
                       const GradientTarget& target);

 private:
  View gate_up(ExpertActivations& kept, std::int64_t tokens);
  View activated(ExpertActivations& kept, std::int64_t tokens);
  ConstView weight_in() const { return parameters_.weight(gate_up_, 2 * width_, hidden_); }
  ConstView weight_out() const { return parameters_.weight(down_, hidden_, width_); }

  const ParameterStore& parameters_;
  MoeState& state_;
  Recompute again_;
  DType dtype_;
  std::int64_t hidden_, width_;
  std::int64_t gate_up_ = 0, down_ = 0, end_ = 0;
};

}  // namespace longhaul
