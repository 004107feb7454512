// An adapter of PEFT merged into a model's weights, or taken out of them again, parameter by parameter as they are
// read.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/interop/peft_adapter.h"
#include "engine/model/store/model_folder.h"
#include "engine/model/store/stored_tensors.h"

namespace longhaul {

class AdapterMerge {
 public:
  enum class Way { in, out };
  // Errors name all that does not belong to a model of this shape, and what cannot be taken out.
  static Result<AdapterMerge> open(const std::string& folder, const ModelShape& shape, Way way = Way::in);
  // All of a parameter, in C order: its values become those of the tuned model, or of the one before.
  Status merge(const ParameterSpec& spec, std::span<float> values) const;
  // Is the tuned model's all in the adapter?
  bool replaces(const ParameterSpec& spec) const;
  // Of the model's file, those that it changes.
  std::size_t tensors() const { return adapter_.tensors(); }

 private:
  struct Place {
    PeftTarget target;
    std::int64_t first = 0;  // row of the target
  };
  AdapterMerge(PeftAdapter adapter, Way way) : adapter_(std::move(adapter)), way_(way) {}
  PeftAdapter adapter_;
  Way way_;
  std::map<std::string, Place> places_;  // of each parameter
};

// What a copy of a model changes of it.
struct ModelChange {
  const AdapterMerge* adapter = nullptr;  // merged into it; null: none
  // Before that, of every parameter of the folder; may be empty.
  std::function<void(const ParameterSpec& spec, std::span<float> values)> held = {};
  // What stands before every text of the copy, which the folder does not have, as PEFT has it
  // (engine/model/store/learned_prompt.h); empty: nothing. Borrowed.
  std::span<const float> prompt = {};
  // What takes the place of the folder's parameters, or stands beside them: those of bottlenecks and the output layer
  // of a reward model, by their names, where they are there; null: none. Borrowed.
  const std::map<std::string, std::vector<float>>* beside = nullptr;
};

// The model of `folder`, changed, written to `to`, one parameter after the other: models of any size. What the adapter
// replaces need not be in the folder: the output layer of a reward model that began as a language model. `done`, after
// each, may be empty.
Status copy_model(const std::string& folder, const ModelChange& change, const ModelFolderOptions& options,
                  const std::string& to, const std::function<void(std::size_t done, std::size_t of)>& done = {});

}  // namespace longhaul
