// A model on disk: a Hugging Face folder, which is also what pretrain, sft, align and convert leave as their artifact:
//   config.json  model.safetensors  tokenizer.json  tokenizer_config.json  generation_config.json
#pragma once

#include <string>

#include "engine/interop/hf_config.h"
#include "engine/model/parameter_store.h"

namespace longhaul {

Result<HfConfig> load_model_config(const std::string& folder);

// Fills the masters and the compute copy; every parameter must be there with its shape. I8 tensors are multiplied out
// with their "<name>_scale". Values become f32 exactly (f16, bf16) or as they are.
Status load_model_weights(const ComputeContext& context, const std::string& folder, ParameterStore& store);

struct ModelFolderOptions {
  std::string dtype = "f32";     // "f32" | "bf16": how the weights are stored
  HfConfig config;               // shape and token ids; the dtype is set from above
  std::string tokenizer_folder;  // tokenizer.json and tokenizer_config.json are copied from here; "" for none
};
Status write_model_folder(const std::string& folder, const ParameterStore& store, const ModelFolderOptions& options);

}  // namespace longhaul
