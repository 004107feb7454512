#include "engine/tasks/training/trained_model.h"

#include <optional>
#include <utility>

#include "engine/parallel/pipeline/gather_masters.h"

namespace longhaul {

Status write_trained_model(Mesh& mesh, bool first, const AdapterStores& stores, const std::string& start_model,
                           const std::function<Result<ModelFolderOptions>()>& options, const std::string& folder) {
  if (stores.adapted) return write_adapted_model(mesh, first, *stores.trained, start_model, options, folder);
  std::optional<ModelFolderWriter> writer;
  const auto begin = [&]() -> Status {
    LH_TRY(const ModelFolderOptions chosen, options());
    LH_TRY(ModelFolderWriter created, ModelFolderWriter::create(folder, chosen));
    writer.emplace(std::move(created));
    return {};
  };
  const Status begun = first ? begin() : Status();
  const Status gathered = gather_each_parameter(mesh, stores.trained->shape(), stores.trained->layout(),
                                                {stores.trained->masters(), stores.trained->device()},
                                                [&](const ParameterSpec& spec, std::span<const float> values) {
                                                  return writer ? writer->add(spec.name, values) : Status();
                                                });
  LH_CHECK(begun);
  LH_CHECK(gathered);
  return writer ? writer->finish() : Status();
}

}  // namespace longhaul
