// Where a stage computes: the key `device`, and what goes with it in stages that train. "auto" is the planner's to
// decide (orchestrator/controller/stage_device.h); a task file says cpu or gpu, and one that says nothing means cpu.
#pragma once

#include "base/text.h"
#include "contracts/field_table.h"
#include "contracts/settings/training.h"

namespace longhaul {

FieldOptions device_options();
// Of a `command` stage: what its job asks for; the program decides what it computes on.
FieldOptions command_device_options();
// Of device = "gpu": engine/ops/attention_choice.h.
FieldOptions attention_backend_options();
FieldOptions communicator_options();

// What is not there on GPUs yet is refused (unsupported) before anything is submitted; the error names the key.
Status check_device(const std::string& device, const OptimizerSettings& optimizer,
                    const CorruptionSettings& corruption);
template <class Settings>
Status check_device_settings(const Settings& settings) {
  return check_device(settings.device, settings.optimizer, settings.corruption);
}
// The same of the model and the layout, where they are known.
Status check_device(const std::string& device, const ModelShape& shape, const ParallelDims& dims);

}  // namespace longhaul
