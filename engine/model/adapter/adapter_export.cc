#include "engine/model/adapter/adapter_export.h"

#include <optional>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/model/coded_weights.h"
#include "engine/interop/peft_writer.h"
#include "engine/model/store/adapter_merge.h"
#include "engine/parallel/pipeline/gather_masters.h"

namespace longhaul {

Result<AdapterStores> make_adapter_stores(const ComputeContext& context, const ModelShape& shape, DType dtype,
                                          MemoryAccounts* memory, const MeshPlace& place, Mesh& mesh) {
  ModelShape model = shape;
  model.adapter = {};
  AdapterStores stores;
  stores.trained = std::make_unique<ParameterStore>(shape, shape.adapter.on() ? DType::f32 : dtype, memory, place);
  if (!shape.adapter.on()) return stores;
  if (stores.trained->layout().parameters().empty())
    return make_error(ErrorCode::invalid_input,
                      format("adapter.targets: of the layers of pipeline stage {} nothing is adapted", place.at.pp),
                      "name matrices of all layers, or use parallel.pp = 1");
  stores.frozen =
      std::make_unique<ParameterStore>(ParameterStore::frozen(model, dtype, memory, place, shape.adapter.base_weights));
  stores.adapted = std::make_unique<AdaptedWeights>(context, *stores.frozen, *stores.trained, memory, &mesh);
  return stores;
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
  const Status gathered =
      gather_each_parameter(mesh, trained.shape(), trained.layout(), {trained.masters(), trained.device()},
                            [&](const ParameterSpec& spec, std::span<const float> values) {
                              return writer ? writer->add(spec.name, values) : Status();
                            });
  LH_CHECK(begun);
  LH_CHECK(gathered);
  if (!writer) return {};
  LH_CHECK(writer->finish());
  LH_TRY(const ModelFolderOptions model, options());
  LH_TRY(const AdapterMerge merge, AdapterMerge::open(of_adapter, model.config.shape));
  const std::string& format = trained.shape().adapter.base_weights;
  const auto held = [&](const ParameterSpec& spec, std::span<float> values) {
    if (is_coded(format, spec)) round_to_codes(format, values);
  };
  return copy_model(start_model, {&merge, held}, model, folder);
}

}  // namespace longhaul
