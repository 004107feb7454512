// Whether somebody may still be at a submission whose outcome nobody has written down.
#pragma once

#include "base/process.h"
#include "orchestrator/state/run_ledger.h"

namespace longhaul {

// Any controller since the intent may have acted upon it, and one that was overtaken within a call to the scheduler
// does not know it yet. Only this process, whose calls have returned, and one of this host that has ended are surely at
// nothing. Pure but for `alive`.
template <class Alive>
bool may_be_in_flight(const RunLedger& ledger, const LedgerAttempt& attempt, const ProcessId& self,
                      const std::string& this_host, Alive&& alive) {
  if (ledger.drivers.empty() || ledger.drivers.front().epoch > attempt.intent_epoch) return true;  // not all are known
  for (const LedgerDriver& driver : ledger.drivers) {
    if (driver.epoch < attempt.intent_epoch) continue;
    const ProcessId process{static_cast<pid_t>(driver.pid), driver.start_ticks};
    if (driver.host != this_host) return true;
    if (process != self && alive(process)) return true;
  }
  return false;
}

}  // namespace longhaul
