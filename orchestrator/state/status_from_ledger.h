// The status of a run whose ledger is in memory already; read_run_status() folds it from the logs first.
#pragma once

#include <cstdint>
#include <string>

#include "orchestrator/state/run_folder.h"
#include "orchestrator/state/run_status.h"

namespace longhaul {

RunStatus status_from_ledger(const std::string& run_dir, const FrozenRun& frozen, const RunLedger& ledger);
// Whether the process that drove a run last still does, by its host, process id and start. On another host: whether it
// has touched the run's pulse in the last 90 s.
bool is_driven_by(const std::string& run_dir, const std::string& host, std::int64_t pid, std::uint64_t start_ticks);
// A file that a driver touches every few seconds, for people on other hosts.
std::string driver_pulse_path(const std::string& run_dir);

}  // namespace longhaul
