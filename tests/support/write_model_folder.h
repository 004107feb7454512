// The model of a whole store as a folder, as another program would have left it.
#pragma once

#include <string>

#include "engine/model/store/model_folder.h"
#include "engine/model/store/parameter_store.h"

namespace longhaul::testing {

inline Status write_model_folder(const std::string& folder, const ParameterStore& store,
                                 const ModelFolderOptions& options) {
  ModelFolderOptions with_shape = options;
  with_shape.config.shape = store.shape();
  LH_TRY(ModelFolderWriter writer, ModelFolderWriter::create(folder, with_shape));
  for (const FlatParameter& p : store.layout().parameters())
    LH_CHECK(writer.add(p.spec.name, store.masters().subspan(static_cast<std::size_t>(p.begin),
                                                             static_cast<std::size_t>(p.end - p.begin))));
  return writer.finish();
}

}  // namespace longhaul::testing
