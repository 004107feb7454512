// What a stage of a plan computes on, by which program, in which numbers: said alike in plan, status, report and JSON.
#pragma once

#include <string>

#include "base/value/value.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

struct StageComputing {
  std::string device;     // "gpu" | "cpu"; "auto": not decided (a plan without a site)
  std::string why;        // what decided it, where the stage did not; "": its own setting
  std::string program;    // "longhaul-engine"; of a command "python3", "bash", "steps actor (serve), learner (train)"
  std::string precision;  // "bf16", "bf16, products in mxfp8", "int8 weights"; "": does not compute with numbers
};
StageComputing computing_of(const PlannedStage& stage);

// "gpu, bf16, longhaul-engine"
std::string computing_text(const StageComputing& computing);
// Sets the keys device, device_why, program and precision.
void set_computing(const StageComputing& computing, Value& table);

}  // namespace longhaul
