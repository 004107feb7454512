// Why a launch ended, or what its ranks survived: the cause in one sentence, the rank that it began with, and the fault
// as the restart policy sees it.
//
// Nothing is decided here and nothing of the lead changes: everything that is known comes in as FaultEvidence. The
// functions read the logs of the ranks below the launch's folder, and write and remove one small file there, to see
// whether there is room on the disk. They never fail: what cannot be read adds nothing to the cause. They may be called
// from any thread that owns the evidence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/process/process.h"
#include "contracts/events/silent_corruption.h"
#include "contracts/records/attempt.h"
#include "contracts/records/launch.h"
#include "contracts/records/record.h"
#include "contracts/tasks/task.h"
#include "resiliency/taxonomy/restart_tier.h"
#include "resiliency/taxonomy/verdict.h"
#include "worker/launch/rank_group.h"
#include "worker/lead/monitor/launch_guard.h"
#include "worker/lead/monitor/rank_watch.h"
#include "worker/lead/recovery/event_facts.h"

namespace longhaul {

// How a launch ended, and what the guard had found before that.
struct LaunchOutcome {
  LaunchEnd launch;
  std::optional<GuardFinding> finding;
  bool ok() const { return launch.ok() && !finding; }
};

// What is known at a fault. The references are borrowed for the length of one call.
struct FaultEvidence {
  const Attempt& attempt;
  const Task& task;
  const Launch& launch;  // the one that ended
  const RankWatch& ranks;
  const EventFacts& events;
  const JobRecord& record;              // of the job so far; its exit is not read
  std::vector<Observation> of_hosts;    // of the launch, from just before its end; without a time
  std::vector<std::string> hosts_left;  // of the job, so far
  std::int64_t now_ms = 0;              // wall clock
};

struct Diagnosis {
  std::string cause;  // one sentence
  int culprit = -1;   // rank that it speaks of; -1: none
  ExitStatus status;  // of the culprit by its own account, or else of the launcher
  // Without `made_progress`, `saved_checkpoint` and `recent`, which belong to the job and not to the launch.
  FaultView view;
};

// Of a launch whose ranks have ended. Their silent corruption comes before any other cause.
Diagnosis diagnose(const LaunchOutcome& end, const FaultEvidence& evidence);
// Of ranks that are all alive: they wait for an order to go on, or in a collective that such an order ends.
Diagnosis diagnose_survived(const GuardFinding& finding, const FaultEvidence& evidence);
// With what the rank has said, which is forgotten once a restart is decided: should the order come to nothing, the
// fault is still that one, and not what became of the ranks that waited.
GuardFinding with_what_was_said(GuardFinding finding, const EventFacts& events);

// The node, and not a rank on it, is at fault: it was lost, or is not fit to work on.
bool is_of_host(const GuardFinding& finding);

}  // namespace longhaul
