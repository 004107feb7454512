// Which experts a token goes to, and with which weight: the router's product, the selection, what is counted of it, the
// auxiliary losses, and their gradients. It computes in f32; what it selects and how weights come about is the shape's
// (engine/ops/experts/moe_router.h), how it is balanced MoeState's.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "engine/core/tensor/placed_array.h"
#include "engine/model/experts/moe_state.h"
#include "engine/model/experts/routed_rows.h"
#include "engine/model/store/gradient_target.h"
#include "engine/model/store/parameter_store.h"
#include "engine/ops/experts/moe_router.h"

namespace longhaul {

// What the routing of one micro-batch leaves for its backward: m rows of this rank, k slots each.
struct Routing {
  explicit Routing(MemoryAccount* account)
      : logits(account), ids(account), weights(account), tally(account), mask(account), rows(account) {}
  PlacedArray<float> logits;      // [m, experts]
  PlacedArray<std::int32_t> ids;  // [m, k]
  PlacedArray<float> weights;     // [m, k]
  // Of the micro-batch: statistics [2 experts + 2], counts [experts] of tokens that chose each expert.
  PlacedArray<float> tally;
  PlacedArray<std::uint8_t> mask;  // [m]: 0 for padding; empty: there is none
  RoutedRows rows;

  std::int64_t host_bytes() const {
    return logits.host_bytes() + ids.host_bytes() + weights.host_bytes() + rows.host_bytes();
  }
};

class RouterLayer {
 public:
  // layer: of the model; index: of this stage's. Both outlive it.
  RouterLayer(const ParameterStore& parameters, MoeState& state, int layer, int index);

  // The router's parameters in the flat arrays: they begin and end there.
  std::int64_t begin() const { return gate_; }
  std::int64_t end() const { return end_; }
  // The selection's bias, [experts]; -1: none.
  std::int64_t bias_begin() const { return bias_; }

  // x [m, h]: rows of this rank; real [m]: 0 for padding; empty: there is none. Collective over the micro-batch's ranks
  // where they decide together.
  void forward(const ComputeContext& context, Routing& routing, int slot, View x, std::span<const std::uint8_t> real);
  // From the gradient of the weights in the scratch: what backward_input and backward_weight need, dlogits [m,
  // experts]. Adds up the losses and counts of the step.
  void backward(const ComputeContext& context, Routing& routing, int slot, std::span<float> dlogits);
  // dx [m, h] += the gradient by way of the router.
  void backward_input(const ComputeContext& context, std::span<const float> dlogits, View dx);
  void backward_weight(const ComputeContext& context, std::span<const float> dlogits, View x,
                       const GradientTarget& target);

 private:
  RouterShape shape(std::int64_t tokens) const;
  // The router works in f32, with weights as exact as the others are.
  ConstView weight(const ComputeContext& context);
  ConstView in_f32(const ComputeContext& context, View rows, std::int64_t tokens);
  std::span<const float> bias(const ComputeContext& context);
  void select(const ComputeContext& context, Routing& s, std::int64_t tokens, std::span<const std::uint8_t> real);
  // Sinkhorn's choice among the tokens of all ranks of the micro-batch.
  void select_together(const ComputeContext& context, Routing& s, std::int64_t tokens, std::span<std::int32_t> chosen);
  void count(const ComputeContext& context, Routing& s, std::int64_t tokens, std::span<const std::uint8_t> real);
  void plan(const ComputeContext& context, Routing& s, std::int64_t tokens, std::span<const std::uint8_t> real);
  std::span<float> statistics(Routing& s) const {
    return s.tally.span().first(static_cast<std::size_t>(2 * experts_ + 2));
  }
  std::span<float> counts(Routing& s) const {
    return s.tally.span().subspan(static_cast<std::size_t>(2 * experts_ + 2));
  }

  const ParameterStore& parameters_;
  MoeState& state_;
  int layer_, index_;
  DType dtype_;
  std::int64_t hidden_, experts_, top_k_;
  std::int64_t gate_ = 0, bias_ = -1, end_ = 0;
};

}  // namespace longhaul
