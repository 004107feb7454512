// Keys and values that stand before every text in one layer (ModelShape::virtual_keys; Li and Liang 2021, section 4.2):
// each sequence begins with ids behind the vocabulary, and the keys and values of these tokens are rows of two
// parameters instead of what the layer computes. So attention, context parallelism, packing and pipelines know nothing
// of them. Nothing else of such a token reaches another one, and it has no loss: its gradient is that of the two
// parameters.
#pragma once

#include <cstdint>

#include "engine/model/layers/activations.h"
#include "engine/model/store/gradient_target.h"
#include "engine/model/store/parameter_store.h"

namespace longhaul {

class PrefixRows {
 public:
  // `queries`, `keys`: columns of qkv [t, queries + 2 keys] on this rank.
  PrefixRows(const ParameterStore& parameters, int layer, std::int64_t queries, std::int64_t keys);

  // Into the rotated qkv of a micro-batch.
  void put(const ComputeContext& context, const MicroBatch& batch, View qkv) const;
  // From the gradient of that qkv, before it is rotated back: sums go to gradients.prefix, and what they were in
  // gradients.qkv becomes 0.
  void take_gradient(const ComputeContext& context, const MicroBatch& batch, const BlockGradients& gradients) const;
  // From gradients.prefix; says that both parameters' gradients are ready.
  void backward_weight(const ComputeContext& context, const BlockGradients& gradients,
                       const GradientTarget& target) const;

 private:
  // Calls use(token, row, count) for neighbouring tokens whose rows are neighbours, too. Which they are the host knows.
  template <class Use>
  void for_each_run(const MicroBatch& batch, const Use& use) const;

  const ParameterStore& parameters_;
  std::int64_t rows_, vocabulary_, queries_, keys_;
  std::int64_t at_[2] = {-1, -1};  // of keys and of values in the flat arrays; rows_ = 0: there are none
};

}  // namespace longhaul
