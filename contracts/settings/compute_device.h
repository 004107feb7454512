// Where a training computes: the key `device` of the stages that train, and what goes with it.
#pragma once

#include "base/text.h"
#include "contracts/field_table.h"
#include "contracts/settings/training.h"

namespace longhaul {

FieldOptions device_options();

// What is not there on GPUs yet is refused (unsupported) before anything is submitted; the error names the key.
Status check_device(const std::string& device, const OptimizerSettings& optimizer, const CorruptionSettings& corruption);
// The same of the model and the layout, where they are known.
Status check_device(const std::string& device, const ModelShape& shape, const ParallelDims& dims);

}  // namespace longhaul
