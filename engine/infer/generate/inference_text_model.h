// The engine's model and tokenizer as the server needs them: a KV cache per slot, one ComputeContext. On a GPU the
// caches of all slots lie in pages of one pool.
#pragma once

#include <memory>
#include <string>

#include "engine/infer/generate/text_model.h"
#include "engine/ops/gpu.h"

namespace longhaul {

struct InferenceTextModelOptions {
  std::string precision = "bf16";  // "bf16" | "f32"
  int threads = 0;                 // 0: all cores
  int slots = 4;
  std::int64_t context_length = 0;  // per slot; 0: the model's max_position_embeddings
  std::string device = "cpu";       // "cpu" | "gpu": weights and caches lie there
};

// A model artifact or a Hugging Face folder with config.json, model.safetensors (int8 too) and tokenizer.json. Takes
// the memory of all caches at once: on a processor the context for each slot; on a GPU what all slots could fill, or
// what it has left, at least one context. An answer ends at any of the tokens of engine/data/template/end_tokens.h; a
// folder with neither a chat template nor the tokens of Longhaul's chat form serves completions but no chat. A GPU with
// too little memory for all of it is refused before anything is loaded.
Result<std::unique_ptr<TextModel>> load_inference_text_model(const std::string& folder,
                                                             const InferenceTextModelOptions& options,
                                                             const OpenGpu& open_gpu = {});

}  // namespace longhaul
