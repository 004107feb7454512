// Room engine/model/experts
// The feed-forward half of a block as a mixture of experts, with routing across ranks.
// moe_layer.h is the order of its parts: router_layer.h decides, routed_experts.h and shared_experts.h compute.
// moe_state.h holds what all expert layers share; routed_rows.h says where rows go.
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
#include "engine/model/experts/routed_experts.h"
#include "engine/model/experts/router_layer.h"
#include "engine/model/experts/shared_experts.h"
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
  std::pair<std::int64_t, std::int64_t> partial_gradient() const {
    return {router_.begin(), shared_.any() ? shared_.end() : router_.end()};
  }
  // The selection's bias in the flat arrays, [experts]; -1: none.
  std::int64_t bias_begin() const { return router_.bias_begin(); }
  // What slots keep outside their account.
  std::int64_t bytes() const;

 private:
  // What one micro-batch leaves for its backward.
  struct Slot {
    explicit Slot(MemoryAccount* account) : routing(account), kept(account), gradients(account) {}
    Routing routing;
    ExpertActivations kept;
    MoeGradients gradients;  // where input and weight backward run apart
  };

  Slot& at(int slot) { return slots_[static_cast<std::size_t>(slot)]; }
  MoeGradients& gradients(Slot& s) { return activations_.split_backward() ? s.gradients : state_.gradients; }
  std::int64_t own_rows(std::int64_t tokens) const { return tokens / tensor_.size(); }
  // This rank's of all t rows, or of the r it holds.
  View own_of(View rows, std::int64_t tokens) const;
  View input(int slot) const;  // own rows of the slot's post_norm, [m, h]
  std::span<const std::uint8_t> own_real(const MicroBatch& batch) const;
  // Own rows where the result of the layer, or of its backward, is to stand; done() brings it to all r rows.
  View own_target(View rows, std::int64_t tokens);
  void done(View own, View rows, std::int64_t tokens);
  // x [m, h] to the experts and their answers back, beside it the shared experts -> shared_y, if there is any.
  void through_experts(const ComputeContext& context, Slot& s, View x, View shared_y);

  Activations& activations_;
  TensorParallel& tensor_;
  MoeState& state_;
  int index_;
  DType dtype_;
  std::int64_t hidden_;
  bool block_again_;  // the block keeps nothing of the experts
  RouterLayer router_;
  RoutedExperts routed_;
  SharedExperts shared_;
  std::vector<Slot> slots_;
  View dn_;  // between backward_input and finish_input
};

}  // namespace longhaul
