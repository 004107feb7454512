#include "engine/model/feed_forward.h"

#include "engine/model/gated_mlp.h"

namespace longhaul {

std::unique_ptr<FeedForward> make_feed_forward(const ParameterStore& parameters, Activations& activations,
                                               TensorParallel& tensor, int layer, int index) {
  return std::make_unique<GatedMlp>(parameters, activations, tensor, layer, index);
}

}  // namespace longhaul
