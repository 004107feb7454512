// The model that a training leaves: whole parameters, gathered from the ranks that hold their parts.
#pragma once

#include <functional>
#include <string>

#include "engine/model/adapter/adapter_export.h"
#include "engine/model/store/model_folder.h"
#include "engine/parallel/mesh/mesh.h"

namespace longhaul {

// Collective over the mesh: its first rank writes, one parameter after the other; its outcome is that rank's. With an
// adapter also the adapter (engine/model/adapter/adapter_export.h), which is merged into `start_model`. `options` is
// asked on the first rank alone.
Status write_trained_model(Mesh& mesh, bool first, const AdapterStores& stores, const std::string& start_model,
                           const std::function<Result<ModelFolderOptions>()>& options, const std::string& folder);

}  // namespace longhaul
