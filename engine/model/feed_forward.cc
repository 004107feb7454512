#include "engine/model/feed_forward.h"

#include "engine/model/gated_mlp.h"
#include "engine/model/gelu_mlp.h"

namespace longhaul {

std::unique_ptr<FeedForward> make_feed_forward(const ParameterStore& parameters, Activations& activations,
                                               TensorParallel& tensor, int layer, int index) {
  if (parameters.shape().is_gpt2()) return std::make_unique<GeluMlp>(parameters, activations, tensor, layer, index);
  return std::make_unique<GatedMlp>(parameters, activations, tensor, layer, index);
}

}  // namespace longhaul
