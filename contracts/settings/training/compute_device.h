// Where a stage computes: the key `device`, and what goes with it in stages that train. "auto" is the planner's to
// decide (orchestrator/preflight/stage_device.h); a task file says cpu or gpu, and one that says nothing means
// cpu. What is not there on GPUs: feature_table.h.
#pragma once

#include "base/text/text.h"
#include "contracts/schema/field_table.h"

namespace longhaul {

FieldOptions device_options();
// Of a `command` stage: what its job asks for; the program decides what it computes on.
FieldOptions command_device_options();
// Of device = "gpu": engine/ops/attention/attention_choice.h.
FieldOptions attention_backend_options();
FieldOptions communicator_options();

}  // namespace longhaul
