// How many jobs may still be queued, by the limits that a site and its classes set for one user. Pure.
#pragma once

#include <algorithm>
#include <limits>

#include "orchestrator/decide/decide.h"

namespace longhaul {

inline int open_jobs(const LedgerStage& stage) {
  return (stage.job_open() ? 1 : 0) + (stage.successor_open() ? 1 : 0);
}

// Of the class of `stage`; a very large number where that has no limit. The run's own jobs count, others' are not
// known.
inline int class_room_left(const SchedulingRules& rules, const RunLedger& ledger, const StageRules& stage) {
  if (stage.class_submitted_max <= 0) return std::numeric_limits<int>::max();
  int open = 0;
  for (std::size_t i = 0; i < ledger.stages.size() && i < rules.stages.size(); ++i)
    if (rules.stages[i].job_class == stage.job_class) open += open_jobs(ledger.stages[i]);
  return stage.class_submitted_max - open;
}

// Of all; `stage`: and of its class, where it is not null.
inline int room_left(const SchedulingRules& rules, const RunLedger& ledger, const StageRules* stage) {
  const int of_class = stage ? class_room_left(rules, ledger, *stage) : std::numeric_limits<int>::max();
  if (rules.submitted_max <= 0) return of_class;
  int open = 0;
  for (const LedgerStage& one : ledger.stages) open += open_jobs(one);
  return std::min(of_class, rules.submitted_max - open);
}

}  // namespace longhaul
