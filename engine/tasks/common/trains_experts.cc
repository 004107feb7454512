#include "engine/tasks/common/trains_experts.h"

#include "contracts/settings/job/resumable.h"
#include "engine/model/store/model_folder.h"

namespace longhaul {

bool trains_experts(const Task& task) {
  if (!trains(task.kind)) return false;
  if (task.input("model") != nullptr) {
    const auto folder = task.input_path("model");
    const auto config = folder.ok() ? load_any_model_config(*folder) : Result<HfConfig>(folder.error());
    return config.ok() && config->shape.is_moe();
  }
  const Value* model = task.settings.find("model");
  return model != nullptr && model->is_table() && model->get_integer("num_local_experts") > 0;
}

}  // namespace longhaul
