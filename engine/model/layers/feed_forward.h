// The second half of a block, without norm and residual. Each kind is a class of its own; a block asks for no more.
#pragma once

#include <memory>

#include "engine/model/store/gradient_target.h"
#include "engine/model/store/parameter_store.h"
#include "engine/parallel/tensor/tensor_parallel.h"

namespace longhaul {

class Activations;
class AdapterDropout;
class LowPrecisionState;
class MoeState;

class FeedForward {
 public:
  virtual ~FeedForward() = default;
  // What is still to be added to y, once on all ranks together, with the residual [h]; empty: nothing.
  virtual ConstView output_bias() const { return {}; }
  // The slot's post_norm [r, h] -> y [r, h].
  virtual void forward(const ComputeContext& context, int slot, View y) = 0;
  // Computes the activation again and, with `inputs`, the first matrix' output that it comes from.
  virtual void restore(const ComputeContext& context, int slot, bool inputs) = 0;
  // dy [r, h] -> dn [r, h], which is there after finish_input(): messages between ranks may go on until then, beside
  // backward_weight, and dn must be left alone.
  virtual void backward_input(const ComputeContext& context, int slot, View dy, View dn) = 0;
  virtual void finish_input(const ComputeContext& context, int slot) = 0;
  // From what backward_input left; says that its gradients are ready.
  virtual void backward_weight(const ComputeContext& context, int slot, const GradientTarget& target) = 0;
};

// The kind that the model's shape asks for. layer: of the model; index: of the slots' arrays.
// experts: what its expert layers share, null where it has none. low_precision: null: none; experts have none. dropout:
// of an adapter's input, null: none; experts have none.
std::unique_ptr<FeedForward> make_feed_forward(const ParameterStore& parameters, Activations& activations,
                                               TensorParallel& tensor, MoeState* experts,
                                               LowPrecisionState* low_precision, AdapterDropout* dropout, int layer,
                                               int index);

}  // namespace longhaul
