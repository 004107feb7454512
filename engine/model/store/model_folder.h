// A model on disk: a Hugging Face folder, which is also what pretrain, sft, align and convert leave as their artifact:
//   config.json  model.safetensors  tokenizer.json  tokenizer_config.json  chat_template.jinja  generation_config.json
//   ...
// Models of any size: a reader takes from the mapped files only what it is asked for, a writer is given one tensor at a
// time.
#pragma once

#include <optional>
#include <string>

#include "contracts/model/hf_config.h"
#include "engine/interop/safetensors_model_writer.h"
#include "engine/model/store/parameter_store.h"
#include "engine/model/store/stored_tensors.h"

namespace longhaul {

// Whether a caller knows what an adapter may have left beside a model's weights: puts what ModelShape::virtual_tokens
// says before its texts, and computes ModelShape::bottleneck.
enum class AdapterParts { refused, known };
// Of a language model; a reward model is refused (invalid_input), and one with what stands before every text, or with
// bottlenecks, where the caller does not know of them.
Result<HfConfig> load_model_config(const std::string& folder, AdapterParts parts = AdapterParts::refused);
// Of either: the shape's scalar_head says which it is.
Result<HfConfig> load_any_model_config(const std::string& folder);

// Fills the masters and the compute copy; every parameter must be there with its shape. Of a tensor that this rank
// holds a part of, only that part is read. With `new_head` the folder has a language model and the store a reward model
// whose scalar head begins with that seed. With `new_parts` the store has what an adapter adds beside the weights, and
// the folder has not: embeddings before every text begin as rows of its table of tokens that are drawn by that seed,
// keys and values and bottlenecks as parameter_list says.
Status load_model_weights(const ComputeContext& context, const std::string& folder, ParameterStore& store,
                          std::optional<std::uint64_t> new_head = {}, std::optional<std::uint64_t> new_parts = {});

// A box of one part of a tensor of the file, in C order of the part's own shape; nothing else of it is touched. The
// tensor must have the shape that `stored` says.
Status read_stored_box(const SafetensorsModel& file, const StoredTensor& stored, std::size_t part, const Box& box,
                       std::span<float> out);

// The weights of a folder, box by box. I8 tensors are multiplied out with their "<name>_scale". Values become f32
// exactly (f16, bf16) or as they are.
class ModelFolderReader {
 public:
  static Result<ModelFolderReader> open(const std::string& folder, const ModelShape& shape);
  // `out` are the elements of `box` of a parameter, in C order. Errors name the tensor and both shapes where they
  // differ.
  Status read(const ParameterSpec& spec, const Box& box, std::span<float> out) const;

 private:
  struct Place {
    std::size_t tensor, part;
  };
  ModelFolderReader(std::string folder, SafetensorsModel file) : folder_(std::move(folder)), file_(std::move(file)) {}
  std::string folder_;
  SafetensorsModel file_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, Place> places_;  // of each parameter
};

struct ModelFolderOptions {
  std::string dtype = "f32";     // "f32" | "bf16": how the weights are stored
  HfConfig config;               // shape and token ids; the dtype is set from above
  std::string tokenizer_folder;  // the model's companions (interop/folder) are copied from here; "" for none
  std::int64_t shard_bytes_max = 5'000'000'000;  // above it several files and an index; 0: one file
};

// Writes the weights of a folder, given the tensors one by one.
class ModelFolderWriter {
 public:
  // Makes the folder. The weights are those of parameter_list(options.config.shape).
  static Result<ModelFolderWriter> create(const std::string& folder, const ModelFolderOptions& options);
  // A whole parameter, in C order; one after the other, as in parameter_list.
  Status add(const std::string& name, std::span<const float> values);
  // config.json and what else belongs to a model, once all parameters are there.
  Status finish();

 private:
  ModelFolderWriter(std::string folder, ModelFolderOptions options, SafetensorsModelWriter weights)
      : folder_(std::move(folder)), options_(std::move(options)), weights_(std::move(weights)) {}
  Status write(const std::string& tensor, std::span<const float> values);

  std::string folder_;
  ModelFolderOptions options_;
  SafetensorsModelWriter weights_;
  std::vector<StoredTensor> tensors_;
  std::size_t tensor_ = 0, part_ = 0;  // what comes next
  std::vector<float> moved_;           // of a tensor that is made of several parameters, or stored otherwise
  std::vector<bf16> narrow_;
};

}  // namespace longhaul
