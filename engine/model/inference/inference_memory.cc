#include "engine/model/inference/inference_memory.h"

#include <algorithm>
#include <limits>

#include "base/text/text.h"
#include "contracts/plan/memory_plan.h"
#include "engine/interop/safetensors.h"
#include "engine/model/inference/cache/kv_cache.h"
#include "engine/model/inference/inference_experts.h"
#include "engine/model/inference/step_table.h"

namespace longhaul {
namespace {

std::int64_t scratch_of(const ModelShape& s, DType dtype, const InferenceLoad& load) {
  const std::int64_t element = dtype_bytes(dtype);
  const std::int64_t row = 3 * s.hidden_size + 3 * s.q_size() + 2 * s.kv_size() +
                           (s.is_moe() ? 0 : s.mlp_width() + s.intermediate_size);  // of activations
  const std::int64_t experts = s.is_moe() ? ExpertScratch::bytes_for(s, dtype, load.tokens_max) : 0;
  const std::int64_t behind = s.bottleneck.size > 0 ? s.bottleneck.size + s.hidden_size : 0;  // of bottlenecks
  const std::int64_t rope = s.is_gpt2() ? 0 : s.max_position_embeddings * s.head_dim * 4;
  const std::int64_t logits = load.logits_rows * s.vocab_size * 4, seen = load.seen_rows * s.vocab_size * 4;
  std::int64_t grown = logits + load.tokens_max * (4 + 8), pages = 0;  // tokens and their log-probabilities
  const std::int64_t table =
      load.tokens_max * 4 * 4 + load.decode_rows() * static_cast<std::int64_t>(sizeof(SampleRow));
  if (load.in_pages) {
    const std::int64_t room = decode_room(load.context_length), pieces = room / 128;  // in which keys are attended to
    grown += 2 * load.context_length * s.kv_size() * element;  // one text in one layer, for several of its tokens
    pages = load.decode_rows() * (KvPool::pages_for(room) + s.num_attention_heads * pieces * (s.head_dim + 2)) * 4;
  }
  if (load.tp > 1) grown += (1 + load.tp) * load.logits_rows * ((s.vocab_size + load.tp - 1) / load.tp) * 4;
  const std::int64_t partial = load.tp > 1 && dtype != DType::f32 ? load.tokens_max * s.hidden_size * 4 : 0;
  // What grows takes an eighth more.
  return load.tokens_max * (row + behind) * element + partial + experts + grown + grown / 8 + seen + table + pages +
         rope;
}

}  // namespace

std::int64_t weights_always_copied(const ModelShape& s, DType dtype) {
  const std::int64_t before =
      s.virtual_tokens * (s.virtual_keys ? s.num_hidden_layers * (s.q_size() + 2 * s.kv_size()) : s.hidden_size);
  const std::int64_t routers =
      s.is_moe() ? s.num_hidden_layers * s.num_local_experts * (s.hidden_size + (s.router_bias ? 1 : 0)) : 0;
  return before * dtype_bytes(dtype) + routers * dtype_bytes(DType::f32);
}

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
  planned.weights += weights_always_copied(s, dtype);
  if (!load.in_pages) planned.caches = load.sequences * KvCache::bytes_for(s, load.context_length, dtype);
  planned.scratch = scratch_of(s, dtype, load);
  return planned;
}

InferenceMemory plan_inference_memory(const ModelShape& s, DType dtype, const InferenceLoad& load) {
  InferenceMemory planned;
  planned.weights = s.parameter_count() * dtype_bytes(dtype) + weights_always_copied(s, dtype);
  planned.caches = load.in_pages ? KvPool::bytes_for(s, load.sequences * KvPool::pages_for(load.context_length), dtype)
                                 : load.sequences * KvCache::bytes_for(s, load.context_length, dtype);
  planned.scratch = scratch_of(s, dtype, load);
  return planned;
}

Result<std::int64_t> plan_cache_pages(const ModelShape& shape, DType dtype, const InferenceLoad& load,
                                      const Device& device, InferenceMemory& planned) {
  const std::int64_t least = KvPool::pages_for(load.context_length), most = load.sequences * least;
  const std::int64_t numbers = std::numeric_limits<std::int32_t>::max() / kKvPageTokens;  // rows are counted in i32
  const std::int64_t room = device.free_bytes() - gpu_allowance - planned.weights - planned.scratch;
  const std::int64_t fit = room / KvPool::bytes_for(shape, 1, dtype);
  const std::int64_t pages = std::max(least, std::min({most, fit, numbers}));
  planned.caches = KvPool::bytes_for(shape, pages, dtype);
  InferenceLoad one = load;
  one.sequences = 1;
  LH_CHECK(check_inference_memory(planned, one, device));
  return pages;
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
      std::string(caches ? (load.sequences > 1 ? "use fewer slots or a shorter context" : "use a shorter context")
                         : "use bf16, an int8 model, or a larger GPU") +
          "; if another process holds a part (nvidia-smi), end it");
}

}  // namespace longhaul
