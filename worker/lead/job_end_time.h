// When the scheduler ends a job by force. Slurm 22.05 tells a job its limit in no variable, and an administrator may
// move it: it is asked for (squeue, field %e).
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace longhaul {

// Unix time in ms; 0: no limit, or not known yet. unavailable: no answer within `deadline_ms`, or none that has a time.
Result<std::int64_t> job_end_time_ms(const std::string& job, std::int64_t deadline_ms = 5'000);
// Of what squeue says with SLURM_TIME_FORMAT=%s: a number of seconds, or "N/A", "NONE", "Unknown" for none.
Result<std::int64_t> parse_job_end_time(const std::string& text);

}  // namespace longhaul
