// Hugging Face's config.json of a Llama, GPT-2 or Mixtral model and ModelShape, both ways. Read of Llama: the old form
// (rope_theta, rope_scaling with `type` or `rope_type`) and the new one (rope_parameters). Written: both at once, so
// old and new readers agree. What Longhaul's model does not compute (biases, other activations, other rope types, other
// families) is refused by key. A reward model is what transformers calls a sequence classifier; one of several labels
// is read where it says what they mean (contracts/settings/stages/reward_form.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/value/value.h"
#include "contracts/model/model_shape.h"

namespace longhaul {

struct HfConfig {
  ModelShape shape;
  std::string dtype = "float32";            // "float32", "bfloat16", "float16": how the weights are stored
  std::vector<std::int64_t> eos_token_ids;  // may be empty
  std::int64_t bos_token_id = -1;           // -1: none
  std::int64_t pad_token_id = -1;
  // Of a reward model: what its numbers mean, as reward_form.h writes it under the key reward_form_key; null: one
  // number that is the reward.
  Value reward_form = {};
};
inline constexpr const char* reward_form_key = "longhaul_reward_model";
// So many ids stand before every text (ModelShape::virtual_tokens). Others do not read the key: to them the
// folder is the model without them, and PEFT's files beside it have them.
inline constexpr const char* virtual_tokens_key = "longhaul_virtual_tokens";
inline constexpr const char* virtual_keys_key = "longhaul_virtual_keys";  // true: ModelShape::virtual_keys
// ModelShape::bottleneck: {"size": 64, "after": ["attention", "feed_forward"]}. Others do not read the key.
inline constexpr const char* bottleneck_key = "longhaul_bottleneck";
Value bottleneck_to_value(const BottleneckShape& bottleneck);

// `name` is the file's name for errors; all problems are reported together.
Result<HfConfig> read_hf_config(const Value& config, const std::string& name);
Result<HfConfig> load_hf_config(const std::string& path);
Value write_hf_config(const HfConfig& config);

}  // namespace longhaul
