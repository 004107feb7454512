// Whole training steps on a GPU, emulated or real, by the product's trainer on made-up tokens: how long they take, in
// which phase and in which kernels, what they hold, and what a checkpoint costs them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/system/clock.h"
#include "engine/core/device/kernel_table.h"
#include "engine/ops/gpu.h"
#include "tests/gpu/training/training_case.h"

namespace longhaul::gpu_bench {

struct RunLimits {
  double seconds = 60;  // of a measurement, with setting up; no step is begun that would end later
  int steps_max = 10;   // that are timed, behind one that is not; 0: that one alone, and no phases
};

// Seconds of one step, the device waited for at each border; so they add up to a little more than a step takes.
struct Phases {
  double forward_s = 0, backward_s = 0, sums_s = 0, optimizer_s = 0;  // sums: of gradients and losses, the norm
  double whole_s = 0;
};

struct Measured {
  std::int64_t layers = 0;
  std::vector<double> step_s;
  double first_loss = 0, last_loss = 0;
  MemoryTable held;                  // at most, by what the engine counts
  std::int64_t taken_on_device = 0;  // by what the device has less of than before
  Phases phases;
  KernelTable kernels;     // of the step of the phases
  std::string no_kernels;  // why there are none
  double median_s() const;
};
// `training` as deep as its shape says. Errors: a step failed, a loss is no number, or the time was over before a step
// was timed.
Result<Measured> measure(Gpu& gpu, const Clock& clock, const TrainingCase& training, const Recompute& recompute,
                         const RunLimits& limits);

struct CheckpointCost {
  std::uint64_t bytes = 0;
  int steps = 0;             // with a save beside them, and as many without
  double step_s = 0;         // of those without
  double extra_s = 0;        // that the steps with the save took longer
  double stood_still_s = 0;  // of that, as the saver says it
  double write_s = 0;
  // Of the throughput, were there a save every so many steps.
  double share(int every) const { return extra_s / (every * step_s + extra_s); }
};
// Steps without and with one save beside them, below `folder`, through pinned memory and a queue of its own. Errors: no
// pinned memory, no place in the folder, or the save was not done within the time.
Result<CheckpointCost> checkpoint_cost(Gpu& gpu, const Clock& clock, const TrainingCase& training,
                                       const Recompute& recompute, const RunLimits& limits, const std::string& folder);

}  // namespace longhaul::gpu_bench
