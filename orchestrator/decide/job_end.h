// What the end of a job means: its own record first, then what the scheduler says. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/scheduler/scheduler.h"
#include "resiliency/taxonomy/fault_class.h"

namespace longhaul {

struct JobEnd {
  FaultClass fault = FaultClass::program;
  std::string cause;
  std::string node;        // the only one that it ran on, or that was lost under it; "" if nothing points at one
  std::int64_t step = -1;  // newest that it reached, -1: not known
  std::int64_t started_ms = 0, ended_ms = 0;  // 0: not known
  std::vector<std::string> nodes_left = {};   // by its lead, for what they had done
};

// Times that a lead wrote down, by our clock. Its host's clock may be wrong by hours: what lies before the job was
// wanted or after now is not of our clock, give or take two minutes, and only the time between the two counts then.
struct JobTimes {
  std::int64_t started_ms = 0, ended_ms = 0;  // 0: not known
};
JobTimes times_by_our_clock(JobTimes reported, std::int64_t wanted_ms, std::int64_t now_ms);

// Of a job that is `ended` with a bad record, or `lost`. `own_program`: the engine, whose exit codes we know.
// nullopt: somebody asked it to stop, and the scheduler has not said yet why: look again later.
std::optional<JobEnd> judge_end(const JobInfo& info, bool own_program, bool we_cancelled);

}  // namespace longhaul
