// What drawing answers takes on ranks of this processor that all draw at the same time: the operations of a step of
// generation, each by itself (engine/infer/serve/serving_speed.h), and whole rollouts of small models, which show what
// operations by themselves do not (contracts/plan/processor_speed.h). Takes 200 MB for each rank.
#pragma once

#include <atomic>
#include <vector>

#include "base/system/clock.h"
#include "contracts/plan/processor_speed.h"
#include "engine/core/tensor/dtype.h"

namespace longhaul {

struct DrawingMeasure {
  int ranks = 1, threads = 1;  // of a rank; beyond measured_drawers_max ranks so many stand for all
  DType dtype = DType::bf16;
  double seconds = 1;  // everything is timed at least once, and no new round begins after that
  // Borrowed. `stop`: somebody asks to end, null: nobody does. `until`: rounds go on until then, whatever `seconds`
  // say.
  const std::atomic<bool>*stop = nullptr, *until = nullptr;
};
inline constexpr int measured_drawers_max = 16;

struct DrawingTimes {
  ServingSpeed serving;  // the mean of the ranks
  std::vector<TimedRollout> rollouts;
};

// aborted: stopped.
Result<DrawingTimes> measure_drawing(const DrawingMeasure& asked, const Clock& clock);

}  // namespace longhaul
