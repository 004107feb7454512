// A model on disk: a Hugging Face folder, which is also what pretrain, sft, align and convert leave as their artifact:
//   config.json  model.safetensors  tokenizer.json  tokenizer_config.json  generation_config.json
// Models of any size: a reader takes from the mapped files only what it is asked for, a writer is given one tensor at a
// time.
#pragma once

#include <optional>
#include <string>

#include "engine/interop/hf_config.h"
#include "engine/interop/safetensors_model_writer.h"
#include "engine/model/parameter_store.h"

namespace longhaul {

Result<HfConfig> load_model_config(const std::string& folder);

// Fills the masters and the compute copy; every parameter must be there with its shape. Of a tensor that this rank
// holds a part of, only that part is read.
Status load_model_weights(const ComputeContext& context, const std::string& folder, ParameterStore& store);

// The weights of a folder, box by box. I8 tensors are multiplied out with their "<name>_scale". Values become f32
// exactly (f16, bf16) or as they are.
class ModelFolderReader {
 public:
  static Result<ModelFolderReader> open(const std::string& folder);
  // `out` are the elements of `box` in C order. Errors name the tensor and both shapes where they differ.
  Status read(const ParameterSpec& spec, const Box& box, std::span<float> out) const;

 private:
  ModelFolderReader(std::string folder, SafetensorsModel file) : folder_(std::move(folder)), file_(std::move(file)) {}
  std::string folder_;
  SafetensorsModel file_;
};

struct ModelFolderOptions {
  std::string dtype = "f32";     // "f32" | "bf16": how the weights are stored
  HfConfig config;               // shape and token ids; the dtype is set from above
  std::string tokenizer_folder;  // tokenizer.json and tokenizer_config.json are copied from here; "" for none
  std::int64_t shard_bytes_max = 5'000'000'000;  // above it several files and an index; 0: one file
};
Status write_model_folder(const std::string& folder, const ParameterStore& store, const ModelFolderOptions& options);

// The same, given the tensors one by one.
class ModelFolderWriter {
 public:
  // Makes the folder. The weights are those of parameter_list(options.config.shape).
  static Result<ModelFolderWriter> create(const std::string& folder, const ModelFolderOptions& options);
  // A whole parameter, in C order; in the order of parameter_list only one file is open at a time.
  Status add(const std::string& name, std::span<const float> values);
  // config.json and what else belongs to a model, once all parameters are there.
  Status finish();

 private:
  ModelFolderWriter(std::string folder, ModelFolderOptions options, SafetensorsModelWriter weights)
      : folder_(std::move(folder)), options_(std::move(options)), weights_(std::move(weights)) {}
  std::string folder_;
  ModelFolderOptions options_;
  SafetensorsModelWriter weights_;
  std::vector<bf16> narrow_;
};

}  // namespace longhaul
