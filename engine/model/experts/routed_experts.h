// Experts that see the rows that were routed to them. The rows go to the ranks that hold their experts and come back
// (engine/parallel/expert/expert_exchange.h); experts work on the rows of one rank after the other. Forward and
// backward are in two halves each, so that the caller has other work done while rows travel.
#pragma once

#include <cstdint>
#include <span>

#include "contracts/settings/training/recompute.h"
#include "engine/model/experts/moe_state.h"
#include "engine/model/experts/routed_rows.h"
#include "engine/model/store/gradient_target.h"
#include "engine/model/store/parameter_store.h"

namespace longhaul {

class RoutedExperts {
 public:
  RoutedExperts(const ParameterStore& parameters, MoeState& state, const Recompute& again, int layer);

  // x [m, h] begins to travel, and what it becomes to come back; outputs() are there after finish().
  void start(const ComputeContext& context, const RoutedRows& rows, ExpertActivations& kept, View x);
  void finish(const ComputeContext& context, const RoutedRows& rows, ExpertActivations& kept);
  View outputs(const RoutedRows& rows, ExpertActivations& kept);  // [S, h], before weighting
  // The activations again from what is kept here and, with `inputs`, what they come from.
  void activate_again(const ComputeContext& context, const RoutedRows& rows, ExpertActivations& kept, bool inputs);

  // From dy [m, h] and the routing's weights, whose gradient comes into the scratch. The outputs' memory takes what
  // comes back: nobody needs them any more. It is there after finish_backward(), which writes dx [m, h].
  void start_backward(const ComputeContext& context, const RoutedRows& rows, ExpertActivations& kept, MoeGradients& g,
                      std::span<const float> weights, View dy);
  void backward(const ComputeContext& context, const RoutedRows& rows, ExpertActivations& kept, MoeGradients& g);
  void finish_backward(const ComputeContext& context, const RoutedRows& rows, ExpertActivations& kept, View dx);
  // Says that its gradients are ready.
  void backward_weight(const ComputeContext& context, const RoutedRows& rows, ExpertActivations& kept, MoeGradients& g,
                       const GradientTarget& target);

 private:
  // Where they lie, as large as the rows need them.
  View received(const RoutedRows& rows, ExpertActivations& kept);
  View gate_up(const RoutedRows& rows, ExpertActivations& kept);
  View activated(const RoutedRows& rows, ExpertActivations& kept);
  View answers(const RoutedRows& rows, ExpertActivations& kept);
  // Some experts are on other ranks.
  bool travels() { return state_.exchange().ranks() > 1; }
  // Of the experts here. Taken whether or not a row came for them: with ZeRO 3 every rank of a group takes part.
  ConstView weight_in() const { return parameters_.weight(w13_, local_ * 2 * width_, hidden_); }
  ConstView weight_out() const { return parameters_.weight(w2_, local_ * hidden_, width_); }
  // Of the rows of one rank: the activation and, with w13, what it comes from.
  void activate(const ComputeContext& context, const RoutedRows& rows, ExpertActivations& kept, int rank,
                ConstView w13);

  const ParameterStore& parameters_;
  MoeState& state_;
  Recompute again_;
  DType dtype_;
  std::int64_t hidden_, local_, width_;  // width_: the part of an expert's here
  std::int64_t w13_ = 0, w2_ = 0;
};

}  // namespace longhaul
