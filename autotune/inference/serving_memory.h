// What a server holds on each GPU of a tensor-parallel group, in bytes, in closed form.
//   weights      column- and row-split matrices over tp; key and value heads are repeated where tp is larger than they
//                are; embedding and output split over the vocabulary, once where tied; norms and routers on every GPU
//   activations  one layer's, of the largest step: a chunk of prompts and a token of every slot
//   logits       f32, whole vocabulary, a row a slot
//   cache        keys and values of all layers
#pragma once

#include "autotune/inference/serving_task.h"
#include "contracts/model/model_shape.h"

namespace longhaul {

struct ServingMemory {
  double weights = 0, activations = 0, logits = 0, base = 0, reserve = 0;
  double cache_token = 0;   // of a token of context
  double room = 0;          // for the cache; negative: by so much the rest alone is too large
  std::int64_t blocks = 0;  // that the room has
  double held() const { return weights + activations + logits + base + reserve; }
};

double kv_heads_per_gpu(const ModelShape& shape, int tp);
double serving_weight_bytes(const ModelShape& shape, WeightFormat format, int tp);
// Of layout.slots slots.
ServingMemory serving_memory(const ModelShape& shape, const ServingTask& task, const ServingLayout& layout,
                             const GpuType& gpu);
// How many slots of task.context() tokens fit, at most task.slots_max; layout.slots is not looked at.
int slots_that_fit(const ModelShape& shape, const ServingTask& task, ServingLayout layout, const GpuType& gpu);

}  // namespace longhaul
