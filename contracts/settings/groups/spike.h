#pragma once

#include "contracts/schema/field_table.h"

namespace longhaul {

// What happens when the loss or the gradient's norm of a step is no number, or far above what it was: the rule is in
// engine/train/step/spike_guard.h.
struct SpikeSettings {
  std::string action = "stop";  // stop | skip | rollback
  double sigma = 0;             // a spike is above mean + sigma * deviation of the window; 0: not looked at
  double ratio = 0;             // or above ratio * mean; 0: not looked at
  std::int64_t window = 128;    // steps whose update was made
  std::int64_t budget = 5;      // skips or rollbacks in
  std::int64_t budget_steps = 1000;
};
const FieldTable<SpikeSettings>& spike_fields();

}  // namespace longhaul
