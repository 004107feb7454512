// What every part of the scheduler over Slurm works with.
#pragma once

#include <cstdint>
#include <functional>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "orchestrator/scheduler/port/slurm_port.h"
#include "orchestrator/scheduler/scheduler.h"
#include "orchestrator/site/submission_times.h"

namespace longhaul {

struct SlurmSchedulerOptions {
  std::int64_t poll_interval_ms = 30'000;
  std::int64_t settle_ms = 15'000;  // after which a submission that was not answered is visible, or never happened
  std::int64_t in_flight_ms = longhaul::in_flight_ms;  // the same where somebody else may still be at it
  std::int64_t record_grace_ms =
      60'000;            // between Slurm's answer, or its silence, and the conclusion that no record comes
  bool comments = true;  // false: the site has no use for comments but its own, and none is given
  // Nobody comes after this look: a cancellation of which accounting does not know yet by whom counts as the user's.
  bool last_look = false;
};

// All borrowed.
struct SlurmAccess {
  SlurmPort& port;
  SlurmSchedulerOptions options;
  Clock& clock;
  Logger& log;
  std::function<Status()> may_act;  // Scheduler::ask_before_acting
  std::function<bool()> acts;       // for a controller, and not for somebody who looks
};

}  // namespace longhaul
