// The status of a run whose ledger is in memory already; read_run_status() folds it from the logs first.
#pragma once

#include <string>

#include "orchestrator/state/run_folder.h"
#include "orchestrator/state/run_status.h"

namespace longhaul {

RunStatus status_from_ledger(const std::string& run_dir, const FrozenRun& frozen, const RunLedger& ledger);
// A file that a driver touches every few seconds, for people on other hosts.
std::string driver_pulse_path(const std::string& run_dir);

}  // namespace longhaul
