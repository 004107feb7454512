// Whether somebody may still be at a submission whose outcome nobody has written down, and since when nobody can have
// begun one.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/error/result.h"
#include "base/process/process.h"
#include "orchestrator/state/run_ledger.h"

namespace longhaul {

// How much time lies between the first and the last of these claims at least: what any host saw between two of its own,
// for only the clock of one host can be compared. A restart of the host in between only makes it less.
inline std::int64_t least_time_of_claims_ms(std::span<const LedgerDriver> drivers) {
  std::map<std::string, std::int64_t> first;
  std::int64_t ms = 0;
  for (const LedgerDriver& driver : drivers)
    if (driver.claimed_ms >= 0)
      ms = std::max(ms, driver.claimed_ms - first.try_emplace(driver.host, driver.claimed_ms).first->second);
  return ms;
}

// One that was overtaken says so here, for nobody believes its log any more: every call to its scheduler has returned,
// with an answer. Nothing is said by one that was killed.
Status say_nothing_is_in_flight(const std::string& run_dir, std::int64_t epoch);
bool has_said_nothing_is_in_flight(const std::string& run_dir, std::int64_t epoch);  // false also on errors

// Any controller since the intent may have acted upon it, and one that was overtaken within a call to the scheduler
// does not know it yet. Only this process, whose calls have returned, one of this host that has ended, and one that
// said that it leaves (in its log, or `left`, by its epoch) are surely at nothing: nullopt if there is no other.
// Otherwise for how many milliseconds the last of the others had been overtaken at least when the newest driver, this
// process, claimed its epoch: in that time it can have begun nothing. It counts, or drivers that each stay for less
// than there is to wait would wait for ever. Pure but for `alive` and `left`.
template <class Alive, class Left>
std::optional<std::int64_t> overtaken_in_flight_ms(const RunLedger& ledger, const LedgerAttempt& attempt,
                                                   const ProcessId& self, const std::string& this_host, Alive&& alive,
                                                   Left&& left) {
  const std::span<const LedgerDriver> drivers = ledger.drivers;
  std::optional<std::size_t> since;  // the driver that overtook the last of them
  if (drivers.empty() || drivers.front().epoch > attempt.intent_epoch) since = 0;  // not all are known
  for (std::size_t i = 0; i < drivers.size(); ++i) {
    const ProcessId process{static_cast<pid_t>(drivers[i].pid), drivers[i].start_ticks};
    if (drivers[i].epoch < attempt.intent_epoch || drivers[i].left) continue;
    const bool doubtful = drivers[i].host != this_host || (process != self && alive(process));
    if (doubtful && !left(drivers[i].epoch)) since = i + 1;
  }
  if (!since) return std::nullopt;
  return least_time_of_claims_ms(drivers.subspan(*since));
}

}  // namespace longhaul
