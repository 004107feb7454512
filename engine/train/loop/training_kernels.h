// What the kernels of a device took (trace.kernels): of each step for its metric, and the longest of many as an event.
#pragma once

#include "contracts/events/event.h"
#include "engine/core/device/kernel_timer.h"

namespace longhaul {

class KernelReport {
 public:
  // Borrowed; `timer` may be null: nothing is timed.
  KernelReport(KernelTimer* timer, EventWriter& events) : timer_(timer), events_(events) {}

  // Before the update of a step, when the device has nothing to do: of what ran since the last time.
  void take();
  // What ran since then belongs to no step.
  void discard();
  const KernelTable& of_step() const { return of_step_; }
  // After a step; `last`: there are no more.
  void report(std::int64_t step, bool last);

 private:
  KernelTimer* timer_;
  EventWriter& events_;
  KernelTable of_step_, since_reported_;
};

}  // namespace longhaul
