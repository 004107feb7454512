// The hierarchy of timeouts once more, in the job: with the time that it was granted, what Slurm says of itself, what
// was learned of sections, and how long a checkpoint takes. A contradiction ends nothing here: it is reported, once for
// each rule, and what to change for the next job. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "contracts/events/event.h"
#include "contracts/events/warning_event.h"
#include "contracts/records/attempt.h"
#include "resiliency/detect/hang/learned_times.h"
#include "resiliency/timeout_hierarchy.h"
#include "worker/lead/monitor/scheduler_times.h"

namespace longhaul {

class TimeoutWatch {
 public:
  TimeoutWatch(const Attempt& attempt, const std::string& stage_kind);

  // As the scheduler has it. A training stops in time by itself then, for it knows how long a save takes.
  void ends_in(double seconds);
  void take(const SchedulerTimes& times);
  void take(const LearnedTimes& learned);
  // Saves that were measured, and what an earlier lead of this job has reported.
  void take(const std::vector<Event>& events);

  // What was not reported before; `launch` is left to the caller.
  std::vector<WarningEvent> look();

 private:
  void take_teardown(double seconds);
  TimeoutHierarchy all_;
  double hang_factor_;
  bool learns_;  // launches are ended by what was learned
  bool trains_, changed_ = true;
  bool waited_ = false;             // for ranks that a file system kept: how long says nothing of their end
  std::set<std::string> reported_;  // rules, and texts of an earlier lead
};

}  // namespace longhaul
