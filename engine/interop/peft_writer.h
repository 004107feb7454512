// An adapter that was trained here, in the files that PEFT reads (engine/interop/peft_adapter.h has the formulas):
// FOLDER/adapter_config.json and FOLDER/adapter_model.safetensors, in f32. A bottleneck, which PEFT does not have, goes
// into files of the same names: its parameters under their own, and a configuration that says what it is
// (bottleneck_key of contracts/model/hf_config.h) and no peft_type.
#pragma once

#include <span>
#include <string>

#include "contracts/model/adapter_list.h"
#include "engine/interop/safetensors.h"

namespace longhaul {

class PeftWriter {
 public:
  // Makes the folder. `shape` has the adapter; `base_model` is what the configuration calls the model it belongs to.
  static Result<PeftWriter> create(const std::string& folder, const ModelShape& shape, const std::string& base_model);
  // A whole parameter of parameter_list(shape), in C order; each once. Of the kinds prompt, p-tuning and prefix
  // instead what stands before every text, by prompt_name (PeftPrompt::values), and then the output layer of a reward
  // model.
  Status add(const std::string& name, std::span<const float> values);
  // Once all are there.
  Status finish();

 private:
  PeftWriter(std::string folder, std::string config, std::string prefix, SafetensorsWriter file)
      : folder_(std::move(folder)), config_(std::move(config)), prefix_(std::move(prefix)), file_(std::move(file)) {}
  std::string folder_, config_, prefix_;  // the prefix of tensors' names
  SafetensorsWriter file_;
};

}  // namespace longhaul
