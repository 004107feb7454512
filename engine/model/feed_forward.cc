#include "engine/model/layers/feed_forward.h"

#include "engine/model/experts/moe_layer.h"
#include "engine/model/layers/gated_mlp.h"
#include "engine/model/layers/gelu_mlp.h"

namespace longhaul {

std::unique_ptr<FeedForward> make_feed_forward(const ParameterStore& parameters, Activations& activations,
                                               TensorParallel& tensor, MoeState* experts,
                                               LowPrecisionState* low_precision, int layer, int index) {
  if (experts) return std::make_unique<MoeLayer>(parameters, activations, tensor, *experts, layer, index);
  if (parameters.shape().is_gpt2())
    return std::make_unique<GeluMlp>(parameters, activations, tensor, low_precision, layer, index);
  return std::make_unique<GatedMlp>(parameters, activations, tensor, low_precision, layer, index);
}

}  // namespace longhaul
