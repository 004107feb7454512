// Whether what a job has left undone is another job's to do, so that to the scheduler this one is no failure: its time
// was over, or its nodes were taken back.
#pragma once

#include "contracts/records/record.h"

namespace longhaul {

inline bool goes_on_elsewhere(const JobRecord& record) {
  return record.ended_by == "wall_time" || record.ended_by == "preempted";
}

}  // namespace longhaul
