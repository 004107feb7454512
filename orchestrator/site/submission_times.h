// How long a submission to Slurm may be on its way, and what has to be longer than that: one list, so that nobody
// believes a job to be absent, or a controller to be gone, that is only slow.
#pragma once

#include <cstdint>

namespace longhaul {

// Of one call of a port, where a site says nothing else (`submit_deadline`): sbatch and libslurm try again by
// themselves within it. Ended then, what it has sent may still lie with slurmctld.
inline constexpr std::int64_t submission_deadline_ms = 60'000;

// After which a submission that somebody else may still be at, on another host or in a process that lives, is visible
// in Slurm's list or was never made. Counted from Slurm's first answer.
inline constexpr std::int64_t in_flight_ms_of(std::int64_t deadline_ms) {
  return deadline_ms + deadline_ms / 2;
}
inline constexpr std::int64_t in_flight_ms = in_flight_ms_of(submission_deadline_ms);

// After which `status` takes a driver on another host for gone: it touches its file at the beginning of a round only.
inline constexpr std::int64_t driver_silence_ms = submission_deadline_ms + 30'000;
static_assert(driver_silence_ms > submission_deadline_ms);

}  // namespace longhaul
