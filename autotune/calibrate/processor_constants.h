// The time model's constants of ranks on a processor, from what `longhaul-engine measure` has timed in two seconds
// (contracts/plan/processor_speed.h): fitted by the code that also fits published runs and calibrations
// (constant_fit.h), but to steps of models so small that many fit in. Pure.
#pragma once

#include <string>
#include <vector>

#include "autotune/calibrate/calibration.h"
#include "contracts/plan/processor_speed.h"

namespace longhaul {

struct ProcessorConstants {
  std::string section;               // TOML, [processor.2x1-bf16]: as TimeConstants reads it behind the other constants
  std::vector<CalibratedRun> steps;  // measured beside predicted; after: by these constants
  double deviation = 0;              // of those steps, relative: root of the mean square
};

// `assumed`: the constants that ship; what was not timed is theirs. invalid_input: times that no constants explain.
Result<ProcessorConstants> processor_constants(const ConstantTable& assumed, const ProcessorSpeed& speed);

}  // namespace longhaul
