#include "engine/model/store/adapter_merge.h"

#include <algorithm>

#include "base/text/text.h"
#include "engine/model/store/learned_prompt.h"
#include "engine/parallel/mesh/box_copy.h"

namespace longhaul {

namespace {

PeftTarget target_of(const StoredTensor& tensor, const ModelShape& shape) {
  PeftTarget target;
  target.name = tensor.name, target.shape = tensor.shape;
  if (tensor.transposed) std::swap(target.shape[0], target.shape[1]);
  target.is_stored_so = !tensor.transposed;
  const bool tokens = tensor.name == embedding_name(shape);
  target.is_embedding = tokens || ends_with(tensor.name, ".wpe.weight");
  target.is_tied = tokens && shape.tie_word_embeddings;
  return target;
}

// Null where the copy's parameter is the folder's, or what stands before texts.
const std::vector<float>* beside_of(const ModelChange& change, const ParameterSpec& spec) {
  if (!change.beside || !(is_of_bottleneck(spec) || spec.name == scalar_head_name)) return nullptr;
  const auto found = change.beside->find(spec.name);
  return found == change.beside->end() ? nullptr : &found->second;
}

}  // namespace

Result<AdapterMerge> AdapterMerge::open(const std::string& folder, const ModelShape& shape, Way way) {
  LH_TRY(PeftAdapter adapter, PeftAdapter::open(folder));
  if (way == Way::out) LH_CHECK(adapter.check_take_out());
  AdapterMerge merge(std::move(adapter), way);
  std::vector<PeftTarget> targets;
  for (const StoredTensor& tensor : stored_tensors(shape)) {
    targets.push_back(target_of(tensor, shape));
    std::int64_t first = 0;
    for (const ParameterSpec& part : tensor.parts) {
      merge.places_[part.name] = {targets.back(), first};
      first += part.shape[0];
    }
  }
  LH_CHECK(merge.adapter_.check(targets));
  return merge;
}

Status AdapterMerge::merge(const ParameterSpec& spec, std::span<float> values) const {
  const auto place = places_.find(spec.name);
  LH_ASSERT(place != places_.end() && static_cast<std::int64_t>(values.size()) == spec.elements(), spec.name);
  const auto& [target, first] = place->second;
  return way_ == Way::in ? adapter_.merge(target, first, values) : adapter_.take_out(target, first, values);
}

bool AdapterMerge::replaces(const ParameterSpec& spec) const {
  const auto place = places_.find(spec.name);
  return place != places_.end() && adapter_.replaces(place->second.target.name);
}

Status copy_model(const std::string& folder, const ModelChange& change, const ModelFolderOptions& options,
                  const std::string& to, const std::function<void(std::size_t done, std::size_t of)>& done) {
  LH_TRY(const ModelFolderReader reader, ModelFolderReader::open(folder, options.config.shape));
  LH_TRY(ModelFolderWriter writer, ModelFolderWriter::create(to, options));
  const std::vector<ParameterSpec> parameters = parameter_list(options.config.shape);
  std::vector<float> values;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ParameterSpec& spec = parameters[i];
    values.resize(static_cast<std::size_t>(spec.elements()));
    if (const std::vector<float>* own = beside_of(change, spec); own) {
      LH_CHECK(writer.add(spec.name, *own));
      continue;
    }
    if (!change.prompt.empty() && (spec.name == prompt_name || is_of_prefix(spec))) {
      prompt_part(options.config.shape, spec, change.prompt, values);
      LH_CHECK(writer.add(spec.name, values));
      continue;
    }
    if (!change.adapter || !change.adapter->replaces(spec)) {
      LH_CHECK(reader.read(spec, whole_box(spec.shape), values));
      if (change.held) change.held(spec, values);
    }
    if (change.adapter) LH_CHECK(change.adapter->merge(spec, values));
    LH_CHECK(writer.add(spec.name, values));
    if (done) done(i + 1, parameters.size());
  }
  return writer.finish();
}

}  // namespace longhaul
