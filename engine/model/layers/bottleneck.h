// Two small layers behind a half of a block (ModelShape::bottleneck; Houlsby et al. 2019, arXiv 1902.00751,
// section 2.1):
//   y = h + U g(D h + d) + u,  g GELU in its tanh form (engine/ops/pointwise/gelu.h)
// D [size, hidden], d [size], U [hidden, size], u [hidden] (bottleneck_prefix); h is what the half gives, its output's
// bias and dropout included, complete: of each row that this rank has, after the sum over tp. So every rank has all
// four, and where ranks have different rows (sequence parallelism) each has an addend of their gradients, as of norms'.
// Backward, with z = D h + d and a = g(z):
//   du = sums of dy's columns, dU = dy^T a, dz = (dy U) g'(z), dd = sums of dz's columns, dD = dz^T h, dh = dy + dz D
#pragma once

#include "engine/model/layers/activations.h"
#include "engine/model/store/gradient_target.h"
#include "engine/model/store/parameter_store.h"

namespace longhaul {

class Bottleneck {
 public:
  Bottleneck() = default;  // there is none
  // `parameters`: borrowed.
  Bottleneck(const ParameterStore& parameters, int layer, LayerHalf half);

  bool is_there() const { return parameters_ != nullptr; }
  // branch [rows, h]: h on entry, y on return. All of `kept` is for the backward.
  void forward(const ComputeContext& context, std::int64_t rows, View branch, const BottleneckActivations& kept) const;
  // dy [rows, h] -> dh [rows, h], with dz [rows, size] for scratch. Gradients are complete when it returns, whatever
  // the schedule, and said to be ready.
  void backward(const ComputeContext& context, std::int64_t rows, const BottleneckActivations& kept, View dy, View dz,
                View dh, const GradientTarget& target) const;

 private:
  // Where the four begin in the flat arrays.
  struct Places {
    std::int64_t down = 0, down_bias = 0, up = 0, up_bias = 0;
  };
  // dW = dy^T x and db of one layer, where somebody wants them; says that they are ready.
  void take_gradient(const ComputeContext& context, std::int64_t rows, ConstView dy, std::int64_t out, ConstView x,
                     std::int64_t in, std::int64_t weight, std::int64_t bias, const GradientTarget& target) const;

  const ParameterStore* parameters_ = nullptr;
  std::int64_t hidden_ = 0, size_ = 0;
  Places at_;
};

}  // namespace longhaul
