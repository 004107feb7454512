// What each stage of a plan may cost, and from what that is known. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "orchestrator/fit/fit_case.h"

namespace longhaul {

enum class CostSource {
  forecast,  // of its steps, or of its work on processors
  limit,     // it ends by its time limit, or by the wall time of its job
  unknown,   // neither: jobs follow each other until it is done, or a tune stage is still to lay it out
  trials,    // of a tune or search stage: they have jobs of their own, and how many there will be is decided on the way
};

struct StageCost {
  const PlannedStage* stage = nullptr;
  CostSource source = CostSource::unknown;
  double nodes = 0, gpus = 0;            // of its job, spares included
  double low = 0, middle = 0, high = 0;  // seconds
  double step_low = 0;                   // of one step, of a training that is forecast; else 0
  std::int64_t steps = 0;                // of a training whose forecast knows them; else 0
};

// Of all stages that are not cached, in plan order. A forecast counts no more than the stage's time limit. What only a
// limit bounds costs between nothing and that.
std::vector<StageCost> stage_costs(const FitCase& fit);

}  // namespace longhaul
