#include "engine/model/layers/feed_forward.h"

#include "engine/model/experts/moe_layer.h"
#include "engine/model/layers/mlp.h"

namespace longhaul {

std::unique_ptr<FeedForward> make_feed_forward(const ParameterStore& parameters, Activations& activations,
                                               TensorParallel& tensor, MoeState* experts,
                                               LowPrecisionState* low_precision, AdapterDropout* dropout, int layer,
                                               int index) {
  if (experts) return std::make_unique<MoeLayer>(parameters, activations, tensor, *experts, layer, index);
  return std::make_unique<Mlp>(parameters, activations, tensor, low_precision, dropout, layer, index);
}

}  // namespace longhaul
