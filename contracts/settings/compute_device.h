// Where a training computes: the keys `device` and `communicator` of the stages that train, and what goes with them.
#pragma once

#include <type_traits>

#include "base/text.h"
#include "contracts/field_table.h"
#include "contracts/settings/training.h"

namespace longhaul {

FieldOptions device_options();
FieldOptions communicator_options();

// What is not there on GPUs yet is refused (unsupported) before anything is submitted; the error names the key.
Status check_device(const std::string& device, const OptimizerSettings& optimizer,
                    const CorruptionSettings& corruption);
template <class Settings>
Status check_device_settings(const Settings& settings) {
  LH_CHECK(check_device(settings.device, settings.optimizer, settings.corruption));
  if constexpr (std::is_same_v<Settings, AlignSettings>)
    if (settings.device == "gpu")
      return make_error(ErrorCode::unsupported, "device = \"gpu\": stages of kind align compute on processors only",
                        "set device = \"cpu\"");
  return {};
}
// The same of the model, where it is known.
Status check_device(const std::string& device, const ModelShape& shape);

}  // namespace longhaul
