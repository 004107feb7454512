#include "engine/model/store/stored_tensors.h"

#include "base/text/text.h"

namespace longhaul {
namespace {

bool is_conv1d(const std::string& name) {
  for (const char* kind : {"attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight"})
    if (ends_with(name, kind)) return true;
  return false;
}

// "weight" or "bias" of one of q, k, v; empty: another parameter.
std::string fused_kind(const std::string& name) {
  for (const char* kind : {"weight", "bias"})
    for (const char* part : {"q", "k", "v"})
      if (ends_with(name, std::string("attn.") + part + "_proj." + kind)) return kind;
  return {};
}

std::vector<StoredTensor> gpt2_tensors(std::vector<ParameterSpec> parameters) {
  std::vector<StoredTensor> tensors;
  for (ParameterSpec& p : parameters) {
    const std::string kind = fused_kind(p.name);
    if (kind.empty()) {
      const bool transposed = is_conv1d(p.name);
      std::vector<std::int64_t> shape = p.shape;
      if (transposed) std::swap(shape[0], shape[1]);
      tensors.push_back({p.name, std::move(shape), {std::move(p)}, transposed});
      continue;
    }
    const std::string name = p.name.substr(0, p.name.find("attn.")) + "attn.c_attn." + kind;
    if (tensors.back().name != name) tensors.push_back({name, {}, {}, kind == "weight"});
    tensors.back().parts.push_back(std::move(p));
  }
  for (StoredTensor& tensor : tensors) {
    if (!tensor.shape.empty()) continue;
    std::int64_t out = 0;
    for (const ParameterSpec& part : tensor.parts) out += part.shape[0];
    tensor.shape =
        tensor.transposed ? std::vector<std::int64_t>{tensor.parts[0].shape[1], out} : std::vector<std::int64_t>{out};
  }
  return tensors;
}

// Calls move(place in the part, place in the file) for each of the part's elements.
template <class Move>
void each_element(const StoredTensor& tensor, std::size_t part, const Move& move) {
  std::size_t before = 0;
  for (std::size_t i = 0; i < part; ++i) before += static_cast<std::size_t>(tensor.parts[i].shape[0]);
  const ParameterSpec& spec = tensor.parts[part];
  const auto out = static_cast<std::size_t>(spec.shape[0]);
  const std::size_t in = static_cast<std::size_t>(spec.elements()) / out;
  if (!tensor.transposed) {
    for (std::size_t i = 0; i < out * in; ++i) move(i, before * in + i);
    return;
  }
  const auto width = static_cast<std::size_t>(tensor.shape[1]);
  for (std::size_t o = 0; o < out; ++o)
    for (std::size_t i = 0; i < in; ++i) move(o * in + i, i * width + before + o);
}

}  // namespace

std::vector<StoredTensor> stored_tensors(const ModelShape& shape) {
  std::vector<ParameterSpec> parameters = parameter_list(shape);
  if (shape.is_gpt2()) return gpt2_tensors(std::move(parameters));
  std::vector<StoredTensor> tensors;
  for (ParameterSpec& p : parameters) tensors.push_back({p.name, p.shape, {p}});
  return tensors;
}

void put_part(const StoredTensor& tensor, std::size_t part, std::span<const float> values, std::span<float> stored) {
  each_element(tensor, part, [&](std::size_t mine, std::size_t theirs) { stored[theirs] = values[mine]; });
}

Status tie_embeddings(SafetensorsModel& file, const ModelShape& shape) {
  if (!shape.tie_word_embeddings) return {};
  if (!shape.is_gpt2()) return file.tie("model.embed_tokens.weight", "lm_head.weight");
  LH_CHECK(file.tie("transformer.wte.weight", "lm_head.weight"));
  return file.tie("wte.weight", "lm_head.weight");
}

Result<SafetensorView> find_stored(const SafetensorsModel& file, const StoredTensor& tensor) {
  auto found = file.find(tensor.name);
  constexpr std::string_view prefix = "transformer.";
  if (found.ok() || tensor.name.rfind(prefix, 0) != 0) return found;
  if (auto bare = file.find(tensor.name.substr(prefix.size())); bare.ok()) return bare;
  return found;
}

}  // namespace longhaul
