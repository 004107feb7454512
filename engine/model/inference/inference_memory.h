// What a model will hold on a device while it generates, known before anything is loaded.
#pragma once

#include <string>

#include "contracts/model/model_shape.h"
#include "engine/core/device/device.h"
#include "engine/core/tensor/dtype.h"

namespace longhaul {

struct InferenceLoad {
  std::int64_t sequences = 1;       // caches at the same time
  std::int64_t context_length = 0;  // tokens that each has room for
  bool in_pages = false;            // of a pool: plan_cache_pages()
  std::int64_t tokens_max = 0;      // of one forward pass
  std::int64_t logits_rows = 1;     // of one forward pass
  std::int64_t seen_rows = 0;       // of answers with penalties: InferenceModel::keep_seen()
  std::int64_t guessed_rows = 0;    // of a step of one token of each sequence: tokens that are guessed behind those
  int tp = 1;                       // ranks that add up their parts (inference_ranks.h); the shape is this rank's part
  std::int64_t decode_rows() const { return sequences + guessed_rows; }  // at most
};

struct InferenceMemory {
  std::int64_t weights = 0, caches = 0, scratch = 0;
  std::int64_t total() const { return weights + caches + scratch; }
};

// Of the weights those that generation has in a form of its own, also where the others are borrowed
// (stored_weights.h): what stands before every text, and routers in f32.
std::int64_t weights_always_copied(const ModelShape& shape, DType dtype);
// Of the model in `folder`, whose weights are read as load_inference_weights reads them.
Result<InferenceMemory> plan_inference_memory(const std::string& folder, const ModelShape& shape, DType dtype,
                                              const InferenceLoad& load);
// Of a model in memory, whose weights are not quantized; in pages the caches are what all sequences could fill.
InferenceMemory plan_inference_memory(const ModelShape& shape, DType dtype, const InferenceLoad& load);
// Of a load in pages: how many the pool takes of what is free beside all else, at most as many as all sequences could
// fill, at least those of one sequence of the whole context. Less is refused like too little memory is. The caches of
// `planned` become the pool.
Result<std::int64_t> plan_cache_pages(const ModelShape& shape, DType dtype, const InferenceLoad& load,
                                      const Device& device, InferenceMemory& planned);
// With what the driver, libraries and single operations take besides (gpu_allowance). Too little is refused
// (unavailable) with the numbers, the largest part and what makes it smaller.
Status check_inference_memory(const InferenceMemory& planned, const InferenceLoad& load, const Device& device);

}  // namespace longhaul
