// A launch of which all processes run and none has come past its start, while the launcher's own log says that ranks
// cannot find each other: mpi/pmix of Slurm gives a message up ("Cannot send message") and lets them wait for good.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/lead/monitor/launch_guard.h"

namespace longhaul {

// For so long a launcher may complain and still start its ranks.
constexpr std::int64_t lost_start_ms = 20'000;

// `demand` where there is one, as it goes before; else a hang that nobody is accused of, where the launch is in that
// state since lost_start_ms and hangs are ended. `launched_ns`: 0 where another lead has launched it. Reads the end of
// the launcher's log in that state, and only then.
std::optional<GuardFinding> lost_start(const std::optional<GuardFinding>& demand, const std::string& launch_dir,
                                       std::int64_t launched_ns, std::int64_t now_ms,
                                       const std::vector<RankObservation>& ranks, const LaunchGuard& guard);

}  // namespace longhaul
