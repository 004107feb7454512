// How fast ranks on this processor are, timed in a second or two: products, copies, the cost of a call, whole steps of
// small models, and what drawing answers takes (contracts/plan/processor_speed.h). All ranks work at the same time, as
// threads of this process: alone a rank would have caches, memory and clock rates to itself that it shares in a
// training, and with ranks that draw beside it.
#pragma once

#include <atomic>

#include "base/system/clock.h"
#include "contracts/plan/processor_speed.h"

namespace longhaul {

struct MeasureOptions {
  int ranks = 1, threads = 1;  // of a rank
  std::string precision = "bf16";
  RanksBeside beside = {};                  // that draw answers while the others train; none: all draw behind it
  double seconds = 2;                       // of timing, beside what it takes to begin: everything at least once
  const std::atomic<bool>* stop = nullptr;  // borrowed; null: nobody asks
};
inline constexpr int measured_ranks_max = 512;

// Of the program that runs, on the cores that it may use.
Result<ProcessorIdentity> this_processor();

// invalid_input: another precision than bf16 and f32, or a number of ranks or threads that is none. aborted: stopped.
// Half of the seconds goes to trainings and half to drawing, or with ranks beside all of them to both at once.
Result<ProcessorSpeed> measure_processor(const MeasureOptions& options, const Clock& clock);

}  // namespace longhaul
