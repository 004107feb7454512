// A look at a run before its next epoch is claimed: most ticks of a run that waits for its jobs for weeks find nothing
// to do, and leave nothing behind.
#pragma once

#include <optional>
#include <string>

#include "orchestrator/controller/tick.h"
#include "orchestrator/state/run_folder.h"

namespace longhaul {

// What a tick would come to where nothing is to be decided, done or moved on; messages that wait are sent. nullopt: a
// controller has something to do, or nobody but a controller can say (the local scheduler, tune and search stages).
// `frozen` is the run's resolved.toml.
Result<std::optional<TickOutcome>> look_if_idle(const std::string& run_dir, const FrozenRun& frozen,
                                                const TickOptions& options, Clock& clock, Logger& log);

}  // namespace longhaul
