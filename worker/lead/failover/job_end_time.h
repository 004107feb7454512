// When the scheduler ends a job by force. Slurm 22.05 gives a job its limit in no variable, and an administrator may
// move it: it is asked for (squeue, fields %S and %e).
//
// What squeue says are times of the scheduler's clock. They are compared with each other, and with this host's wall
// clock only where that one agrees with them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error/result.h"
#include "base/process/process.h"

namespace longhaul {

// Unix time in ms by the scheduler's clock; 0: none, or not known yet.
struct JobTimes {
  std::int64_t start_ms = 0, end_ms = 0;
};
// The program that says them, for parse_job_times().
SpawnSpec job_times_question(const std::string& job);
// unavailable: no answer within `deadline_ms`, or none that has times.
Result<JobTimes> job_times(const std::string& job, std::int64_t deadline_ms = 5'000);
// Of what squeue says with SLURM_TIME_FORMAT=%s and --format='%S %e': two fields, each a number of seconds, or "N/A",
// "NONE", "Unknown" for none.
Result<JobTimes> parse_job_times(const std::string& text);

struct TimeLeft {
  std::int64_t ms = 0;
  std::int64_t clock_off_ms = 0;  // this host's wall clock before (+) or behind the scheduler's; 0: they agree
};
// Of a job whose lead began `elapsed_ms` ago by the monotonic clock, at `wall_ms` of this host's wall clock: nullopt
// without an end. Two ways lead there: to the end by the wall clock; and the job's length less the time that its lead
// has worked, which knows nothing of what came before the lead (a prolog: minutes at most). Where they are further
// apart than that, it is the wall clock that is off.
std::optional<TimeLeft> time_left(const JobTimes& times, std::int64_t elapsed_ms, std::int64_t wall_ms);

}  // namespace longhaul
