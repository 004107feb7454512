#include "engine/model/adapter/adapter_export.h"

#include <algorithm>
#include <optional>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/model/coded_weights.h"
#include "engine/interop/peft_writer.h"
#include "engine/model/adapter/prompt_encoder.h"
#include "engine/model/store/adapter_merge.h"
#include "engine/model/store/learned_prompt.h"
#include "engine/parallel/pipeline/gather_masters.h"

namespace longhaul {

Result<AdapterStores> make_adapter_stores(const ComputeContext& context, const ModelShape& shape, DType dtype,
                                          MemoryAccounts* memory, const MeshPlace& place, Mesh& mesh) {
  AdapterStores stores;
  stores.trained = std::make_unique<ParameterStore>(shape, shape.adapter.on() ? DType::f32 : dtype, memory, place);
  if (!shape.adapter.on()) return stores;
  // Embeddings before a text are the first stage's alone.
  if (stores.trained->layout().parameters().empty() && !shape.adapter.is_prompt())
    return make_error(ErrorCode::invalid_input,
                      format("adapter.targets: of the layers of pipeline stage {} nothing is adapted", place.at.pp),
                      "name matrices of all layers, or use parallel.pp = 1");
  stores.frozen = std::make_unique<ParameterStore>(
      ParameterStore::frozen(frozen_shape(shape), dtype, memory, place, shape.adapter.base_weights));
  stores.adapted = std::make_unique<AdaptedWeights>(context, *stores.frozen, *stores.trained, memory, &mesh);
  return stores;
}

std::vector<float> learned_prompt(const ModelShape& shape, const std::map<std::string, std::vector<float>>& values) {
  const std::vector<ParameterSpec> own = parameter_list(shape);
  if (!shape.adapter.has_encoder()) {
    const ModelShape model = frozen_shape(shape);
    std::vector<float> prompt(static_cast<std::size_t>(model.virtual_tokens * prompt_width(model)));
    for (const ParameterSpec& part : own)
      if (part.name != scalar_head_name) put_prompt_part(model, part, values.at(part.name), prompt);
    return prompt;
  }
  EncoderWeights encoder{own[0].shape[0], own[0].shape[1], own[1].shape[0], {}};
  for (std::size_t i = 0; i < encoder.values.size(); ++i) encoder.values[i] = values.at(own[i].name);
  const std::int64_t n = encoder.tokens, h = encoder.hidden, e = encoder.size;
  Tensor workspace(DType::f32, Shape{n * (2 * e + std::max(h, 2 * e))});
  const View prompt = encode_prompt(ComputeContext(1), encoder, workspace.view());
  return {prompt.span<float>().begin(), prompt.span<float>().end()};
}

Status write_adapted_model(Mesh& mesh, bool first, const ParameterStore& trained, const std::string& start_model,
                           const std::function<Result<ModelFolderOptions>()>& options, const std::string& folder) {
  const std::string of_adapter = join_path(folder, "adapter");
  std::optional<PeftWriter> writer;
  const auto begin = [&]() -> Status {
    LH_CHECK(make_directories(folder));
    LH_TRY(PeftWriter created, PeftWriter::create(of_adapter, trained.shape(), start_model));
    writer.emplace(std::move(created));
    return {};
  };
  const Status begun = first ? begin() : Status();
  const AdapterShape& adapter = trained.shape().adapter;
  std::map<std::string, std::vector<float>> beside_weights;  // of a prompt, of bottlenecks, with a head: small
  const auto take = [&](const ParameterSpec& spec, std::span<const float> values) {
    if (!writer) return Status();
    if (!adapter.changes_weights()) beside_weights[spec.name].assign(values.begin(), values.end());
    return adapter.is_prompt() ? Status() : writer->add(spec.name, values);
  };
  const Status gathered =
      gather_each_parameter(mesh, trained.shape(), trained.layout(), {trained.masters(), trained.device()}, take);
  LH_CHECK(begun);
  LH_CHECK(gathered);
  if (!writer) return {};
  std::vector<float> prompt;
  if (adapter.is_prompt()) {
    prompt = learned_prompt(trained.shape(), beside_weights);
    LH_CHECK(writer->add(prompt_name, prompt));
    if (trained.shape().scalar_head) LH_CHECK(writer->add(scalar_head_name, beside_weights.at(scalar_head_name)));
  }
  LH_CHECK(writer->finish());
  LH_TRY(ModelFolderOptions model, options());
  const std::string& format = adapter.base_weights;
  const auto held = [&](const ParameterSpec& spec, std::span<float> values) {
    if (is_coded(format, spec)) round_to_codes(format, values);
  };
  if (adapter.is_prompt()) {
    model.config.shape.virtual_tokens = adapter.virtual_tokens;
    model.config.shape.virtual_keys = adapter.is_prefix();
    return copy_model(start_model, {nullptr, held, prompt, &beside_weights}, model, folder);
  }
  if (adapter.is_bottleneck()) {
    model.config.shape.bottleneck = bottleneck_of(adapter);
    return copy_model(start_model, {nullptr, held, {}, &beside_weights}, model, folder);
  }
  LH_TRY(const AdapterMerge merge, AdapterMerge::open(of_adapter, model.config.shape));
  return copy_model(start_model, {&merge, held}, model, folder);
}

}  // namespace longhaul
