// An adapter's training put together, and what it leaves.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/adapter/adapted_weights.h"
#include "engine/model/store/model_folder.h"
#include "engine/parallel/mesh/mesh.h"

namespace longhaul {

// What is trained, and with an adapter, which is in f32, the model's weights, which stay as they are; else null.
struct AdapterStores {
  std::unique_ptr<ParameterStore> trained, frozen;
  std::unique_ptr<AdaptedWeights> adapted;
  // What models compute with.
  ParameterStore& weights() const { return frozen ? *frozen : *trained; }
};

// `shape`: the model's, with its adapter if there is one. Where this rank's layers have nothing that is adapted:
// invalid_input.
Result<AdapterStores> make_adapter_stores(const ComputeContext& context, const ModelShape& shape, DType dtype,
                                          MemoryAccounts* memory, const MeshPlace& place, Mesh& mesh);

// What an adapter of the kinds prompt, p-tuning and prefix puts before every text, as PEFT has it
// (engine/model/store/learned_prompt.h), of the values of all of parameter_list(shape) by their names; a reward model's
// output layer, which is among them, is no part of it.
std::vector<float> learned_prompt(const ModelShape& shape, const std::map<std::string, std::vector<float>>& values);

// Collective over the mesh; the first of its ranks writes, and its outcome is that rank's: the adapter in PEFT's files
// in folder/adapter, and the start model, as it was held, with the adapter merged into it (of the kinds prompt,
// p-tuning, prefix and bottleneck: beside its weights) in `folder`. `options` is asked there alone.
Status write_adapted_model(Mesh& mesh, bool first, const ParameterStore& trained, const std::string& start_model,
                           const std::function<Result<ModelFolderOptions>()>& options, const std::string& folder);

}  // namespace longhaul
