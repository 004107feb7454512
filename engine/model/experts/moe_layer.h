// Room engine/model/experts
// The feed-forward half of a block as a mixture of experts, with routing across ranks.
// moe_layer.h computes; moe_state.h holds what all expert layers share; routed_rows.h says where rows go.
// It does not know the model around it: to a block it is one more FeedForward (layers/feed_forward.h).
//
// The feed-forward half of a block as a mixture of experts:
//   y = sum over the selected experts e of w_e(p) Wd_e (silu(Wg_e p) * Wu_e p)  (+ the same of shared experts, w = 1)
// The router computes in f32; what it selects and how its weights come about is the shape's (engine/ops/
// moe_router.h), how it is balanced MoeState's. Auxiliary losses join the gradient in the backward of their layer.
//
// Every rank of a tp group routes rows of its own, with sequence parallelism those it holds, without the same share of
// the rows that all hold. The rows go to the ranks that hold their experts and come back (engine/parallel/
// expert_exchange.h); experts work on the rows of one rank after the other. Router and shared experts are whole on
// every rank: of their gradients each has an addend.
#pragma once

#include "engine/model/experts/moe_state.h"
#include "engine/model/experts/routed_rows.h"
#include "engine/model/layers/feed_forward.h"
#include "engine/model/layers/parallel_linear.h"

namespace longhaul {

class MoeLayer final : public FeedForward {
 public:
  MoeLayer(const ParameterStore& parameters, Activations& activations, TensorParallel& tensor, MoeState& state,
           int layer, int index);

  void forward(const ComputeContext& context, int slot, View y) override;
  // The routing is kept, so nothing is counted twice and the same tokens are dropped. Where the block keeps nothing,
  // rows travel again.
  void restore(const ComputeContext& context, int slot, bool inputs) override;
  void backward_input(const ComputeContext& context, int slot, View dy, View dn) override;
  void finish_input(const ComputeContext& context, int slot) override;
  void backward_weight(const ComputeContext& context, int slot, const GradientTarget& target) override;
  // The parameters of which each rank of a tp group has an addend of the gradient.
  std::pair<std::int64_t, std::int64_t> partial_gradient() const { return {gate_, dense_end_}; }
  // The selection's bias in the flat arrays, [experts]; -1: none.
  std::int64_t bias_begin() const { return bias_; }
  // What slots keep outside their account.
  std::int64_t bytes() const;

 private:
  // What one micro-batch leaves for its backward: m rows of this rank, k slots each.
  struct Slot {
    explicit Slot(MemoryAccount* account)
        : logits(account),
          ids(account),
          weights(account),
          tally(account),
          mask(account),
          rows(account),
          kept(account),
          gradients(account) {}
    PlacedArray<float> logits;      // [m, experts]
    PlacedArray<std::int32_t> ids;  // [m, k]
    PlacedArray<float> weights;     // [m, k]
    // Of the micro-batch: statistics [2 experts + 2], counts [experts] of tokens that chose each expert.
    PlacedArray<float> tally;
    PlacedArray<std::uint8_t> mask;  // [m]: 0 for padding; empty: there is none
    RoutedRows rows;
    ExpertActivations kept;
    MoeGradients gradients;  // where input and weight backward run apart
  };

  ExpertActivations& memory(Slot& s, bool again) { return again ? state_.again : s.kept; }
  // Where they lie, as large as the slot's micro-batch needs them.
  View received(Slot& s);
  View gate_up(Slot& s);
  View activated(Slot& s);
  View outputs(Slot& s);
  View shared_gate_up(Slot& s, std::int64_t tokens);
  View shared_activated(Slot& s, std::int64_t tokens);
  // Some experts are on other ranks.
  bool travels() { return state_.exchange().ranks() > 1; }
  DType answer_type() const { return ffn_ < parameters_.shape().moe_intermediate_size ? DType::f32 : dtype_; }

  MoeGradients& gradients(Slot& s) { return activations_.split_backward() ? s.gradients : state_.gradients; }
  std::int64_t own_rows(std::int64_t tokens) const { return tokens / tensor_.size(); }
  // This rank's of all t rows, or of the r it holds.
  View own_of(View rows, std::int64_t tokens) const;
  // Own rows where the result of the layer, or of its backward, is to stand; done() brings it to all r rows.
  View own_target(View rows, std::int64_t tokens);
  void done(View own, View rows, std::int64_t tokens);
  RouterShape router_shape(std::int64_t tokens) const;
  // The router works in f32, with weights as exact as the others are.
  ConstView router_weight(const ComputeContext& context);
  ConstView in_f32(const ComputeContext& context, View rows, std::int64_t tokens);
  std::span<const float> bias(const ComputeContext& context);

  void select(const ComputeContext& context, Slot& s, std::int64_t tokens);
  // real [m]: 0 for padding; empty: this rank has none.
  void count(const ComputeContext& context, Slot& s, std::int64_t tokens, std::span<const std::uint8_t> real);
  void plan(const ComputeContext& context, Slot& s, std::int64_t tokens, std::span<const std::uint8_t> real);
  std::span<const std::uint8_t> own_real(const MicroBatch& batch) const;
  std::span<const std::uint8_t> place_mask(const ComputeContext& context, Slot& s, std::span<const std::uint8_t> real);
  std::span<float> statistics(Slot& s) const {
    return s.tally.span().first(static_cast<std::size_t>(2 * experts_ + 2));
  }
  std::span<float> counts(Slot& s) const { return s.tally.span().subspan(static_cast<std::size_t>(2 * experts_ + 2)); }
  // x [m, h] to the experts and their answers back, beside it the shared experts -> shared_y, if there is any.
  void through_experts(const ComputeContext& context, Slot& s, View x, View shared_y);
  // Of the experts here. Taken whether or not a row came for them: with ZeRO 3 every rank of a group takes part.
  ConstView weight_in() const;
  ConstView weight_out() const;
  // Of the rows of one rank: the activation and, with w13, what it comes from.
  void activate(const ComputeContext& context, Slot& s, int rank, ConstView w13);
  void shared_activate(const ComputeContext& context, Slot& s, View x, bool inputs);
  void experts_backward(const ComputeContext& context, Slot& s, View dreceived, View answers);
  // The gradient by way of the shared experts, and of the router and its losses, in two halves: what their weights'
  // backward needs, and then dx [m, h] += it.
  void shared_backward(const ComputeContext& context, Slot& s, View dy);
  void shared_backward_input(const ComputeContext& context, Slot& s, View dx);
  void router_backward(const ComputeContext& context, Slot& s, int slot);
  void router_backward_input(const ComputeContext& context, Slot& s, View dx);

  const ParameterStore& parameters_;
  Activations& activations_;
  TensorParallel& tensor_;
  MoeState& state_;
  int layer_, index_;
  DType dtype_;
  std::int64_t hidden_, experts_, top_k_, local_, ffn_, shared_;
  std::int64_t gate_ = 0, bias_ = -1, shared_gate_up_ = 0, shared_down_ = 0, w13_ = 0, w2_ = 0, dense_end_ = 0;
  Recompute again_;
  std::vector<Slot> slots_;
  View dn_;  // between backward_input and finish_input
};

}  // namespace longhaul
