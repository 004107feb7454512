#include "engine/model/inference_memory.h"

#include <algorithm>

#include "base/text.h"
#include "contracts/memory_plan.h"
#include "engine/interop/safetensors.h"
#include "engine/model/kv_cache.h"

namespace longhaul {

Result<InferenceMemory> plan_inference_memory(const std::string& folder, const ModelShape& s, DType dtype,
                                              const InferenceLoad& load) {
  LH_TRY(const SafetensorsModel file, SafetensorsModel::open(folder));
  InferenceMemory planned;
  for (const std::string& name : file.names()) {
    LH_TRY(const SafetensorView tensor, file.find(name));
    const bool of_one_byte = tensor.type == SafetensorType::i8 || tensor.type == SafetensorType::f8_e4m3;
    const std::int64_t element = of_one_byte                                               ? 1
                                 : ends_with(name, "_scale") || ends_with(name, "_packed") ? 4
                                                                                           : dtype_bytes(dtype);
    planned.weights += tensor.elements() * element;
  }
  planned.caches = load.sequences * KvCache::bytes_for(s, load.context_length, dtype);
  const std::int64_t row =
      3 * s.hidden_size + 3 * s.q_size() + 2 * s.kv_size() + s.mlp_width() + s.intermediate_size;  // of activations
  const std::int64_t rope = s.is_gpt2() ? 0 : s.max_position_embeddings * s.head_dim * 4;
  planned.scratch =
      load.tokens_max * row * dtype_bytes(dtype) + (load.logits_rows + load.seen_rows) * s.vocab_size * 4 + rope;
  return planned;
}

Status check_inference_memory(const InferenceMemory& planned, const InferenceLoad& load, const Device& device) {
  const auto text = [](std::int64_t bytes) { return human_bytes(static_cast<double>(bytes)); };
  const std::int64_t needed = planned.total() + gpu_allowance, free = device.free_bytes();
  if (needed <= free) return {};
  const bool caches = planned.caches >= std::max(planned.weights, planned.scratch);
  return make_error(
      ErrorCode::unavailable,
      format("too little memory on {}: {} are needed, and {} are free (weights {}; caches of {} sequences of {} tokens "
             "{}; scratch {}; {} for the driver, libraries and single operations)",
             device.name(), text(needed), text(free), text(planned.weights), load.sequences, load.context_length,
             text(planned.caches), text(planned.scratch), text(gpu_allowance)),
      std::string(caches ? "use fewer slots or a shorter context" : "use bf16, an int8 model, or a larger GPU") +
          "; if another process holds a part (nvidia-smi), end it");
}

}  // namespace longhaul
