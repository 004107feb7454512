// An adapter as PEFT (Hugging Face) writes it: FOLDER/adapter_config.json and FOLDER/adapter_model.safetensors. W
// [out, in] is the weight of a module, s = alpha / r, or with rsLoRA alpha / sqrt(r):
//   LoRA (Hu et al. 2021, rsLoRA: Kalajdzievski 2023)  W' = W + s B A, A [r, in], B [out, r]
//   of a table of tokens                               W' = W + s (B A)^T, A [r, vocabulary], B [hidden, r]
//   DoRA (Liu et al. 2024, equation 5)                 W' = m (W + s B A) / |W + s B A|, of each row
//   IA3 (Liu et al. 2022, section 3.3)                 W' = l W, rows (outputs) [out, 1] or columns (inputs) [1, in]
// Ranks are those of the tensors; of alpha_pattern the first counts that means a module, as in PEFT from 0.14 on.
// Tensors that stand under their own name, or under base_layer, take the place of the model's: modules_to_save, biases.
// What stands before every text, embeddings (prompt tuning, Lester et al. 2021; of p-tuning, Liu et al. 2021, PEFT
// saves what its encoder made) or keys and values of each layer (prefix tuning, Li and Liang 2021; its MLP's outcome
// likewise), is read apart, for it changes no weights. Other adapters that change a model's inputs or activations
// cannot be merged and are refused.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/interop/safetensors.h"

namespace longhaul {

struct PeftPrompt {
  std::int64_t tokens = 0, width = 0;
  std::vector<float> values;  // [tokens, width]
  bool of_layers = false;     // keys and values: [tokens, layers, 2, kv heads, head_dim]; else embeddings
};
// Nothing where the folder has an adapter of another kind.
Result<std::optional<PeftPrompt>> read_peft_prompt(const std::string& folder);

struct MergedRows;  // peft_merge.cc

// A tensor of the model that an adapter may change.
struct PeftTarget {
  std::string name;                 // in the model's file: "model.layers.0.mlp.up_proj.weight"
  std::vector<std::int64_t> shape;  // of a matrix [out, in], however the file has it
  bool is_embedding = false;        // looked up by row
  bool is_tied = false;             // and the output as well
  bool is_stored_so = true;         // the file has it in this form
};

class PeftAdapter {
 public:
  // Errors: what cannot be merged, by its name in the configuration or in the file.
  static Result<PeftAdapter> open(const std::string& folder);
  // Is it for a model of these tensors? All differences in one error (invalid_input).
  Status check(std::span<const PeftTarget> model) const;
  // Tensors of the model that it changes.
  std::size_t tensors() const { return changes_.size(); }
  bool changes(const std::string& name) const { return changes_.contains(name); }
  // Does what it has of a tensor take the place of the model's, whatever that is?
  bool replaces(const std::string& name) const {
    const auto found = changes_.find(name);
    return found != changes_.end() && found->second.replacement.has_value();
  }
  // `values` are rows (of a vector: elements) of the target from `first` on, in C order, and become those of the tuned
  // model. Of a target that check() passed.
  Status merge(const PeftTarget& target, std::int64_t first, std::span<float> values) const;
  // The other way: values of the tuned model become those of the model before, but for rounding.
  Status take_out(const PeftTarget& target, std::int64_t first, std::span<float> values) const;
  // Can all of it be taken out again? Not where what was before is nowhere: of DoRA's rows the lengths, all of a tensor
  // that was replaced, a row or column times 0 (unsupported, with their names).
  Status check_take_out() const;

 private:
  // Of one tensor of the model; what is not there is empty.
  struct Change {
    std::optional<SafetensorView> a, b, magnitude, embedding_a, embedding_b, scale, replacement;
  };
  PeftAdapter(std::string folder, SafetensorsFile file) : folder_(std::move(folder)), file_(std::move(file)) {}
  Status read_config();
  Status read_names();
  std::string problem_of(const std::string& name, const Change& change, const PeftTarget& target) const;
  double scale_of(const std::string& name, std::int64_t rank) const;
  // Of a matrix's rows, some of all: `factor` 1 adds what the adapter's thin matrices say, -1 takes it away.
  Status add_thin(const std::string& name, const Change& change, const MergedRows& rows, double factor) const;

  std::string folder_, base_, bias_;
  SafetensorsFile file_;
  bool rslora_ = false, dora_ = false;
  double alpha_ = 0;
  std::vector<std::pair<std::string, double>> alphas_;  // of modules whose names end so; the first that does counts
  std::map<std::string, Change> changes_;
};

}  // namespace longhaul
