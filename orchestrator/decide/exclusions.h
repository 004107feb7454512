// Which hosts a stage's next job leaves out: those under suspicion (resiliency/retry_policy.h), as long as enough
// others are left for it. A job that waits for ever because of what it does not want costs more than one that runs on a
// doubtful host, and nobody may be there to see it wait. Pure: what the scheduler says of its hosts comes from outside.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/scheduler/scheduler.h"
#include "orchestrator/state/run_ledger.h"
#include "resiliency/retry_policy.h"

namespace longhaul {

// What one job of a stage asks of hosts.
struct HostNeed {
  int nodes = 0;           // spares included; 0: not known
  std::string partition;   // names separated by commas; "": the default one
  std::string constraint;  // as sbatch takes it; only names joined by '&' are understood, others are passed over
  std::string exclude;     // what the user does not want, in the scheduler's notation
};

struct Exclusions {
  std::vector<std::string> hosts;              // to leave out
  std::vector<std::string> used_all_the_same;  // under suspicion, and needed; the least serious suspicion first
  std::string why;                             // of the latter: one sentence
};

// A job that waits may be waiting for what it excludes. What its hosts say counts after the first time (a scheduler
// that was just started knows of no host), what its reason says after the second, one host at a time.
inline constexpr std::int64_t no_room_patience_ms = 60'000, reason_patience_ms = 15 * 60'000;

// Everything that the ledger holds against hosts, as suspect_nodes() judges it.
std::vector<NodeSuspicion> suspects_of(const RunLedger& ledger, std::int64_t now_ms, std::int64_t expiry_ms);

// `all`: every host that the scheduler has; empty: not known, and all suspects are left out. Suspects are used all the
// same until as many hosts are left as the job needs: hosts with one fault before lemons, older suspicions before
// newer ones. Where there would not be enough hosts at work even with all suspects, those that are down are not left
// out either, as far as the job needs them: it could start nowhere else when they come back.
Exclusions choose_exclusions(std::vector<NodeSuspicion> suspects, const HostNeed& need,
                             const std::vector<HostSeen>& all);

// For the next job of a stage. One that was refused for leaving out the same hosts is not asked for again.
Exclusions exclusions_for(const LedgerStage& stage, const std::vector<NodeSuspicion>& suspects, const HostNeed& need,
                          const std::vector<HostSeen>& all);

struct WaitingJob {
  std::vector<std::string> exclude;
  std::string reason;          // why it waits, as the scheduler gives it
  std::int64_t waited_ms = 0;  // since it was queued, or since an exclusion of it was lifted
};
// nullopt: it waits for something else, or not long enough yet.
std::optional<Exclusions> lift_exclusions(const WaitingJob& job, const std::vector<NodeSuspicion>& suspects,
                                          const HostNeed& need, const std::vector<HostSeen>& all);
// Whether an exclusion may be what a job waits for: "BadConstraints", "ReqNodeNotAvail,_UnavailableNodes:n2".
bool exclusion_may_be_the_reason(const std::string& reason);

// Whether the next decisions depend on what the scheduler says of its hosts: suspects are there, or may be, and a job
// is about to be asked for or waits without them.
bool hosts_matter(const RunLedger& ledger, bool job_ended_badly);

// The fields `exclude`, `used_all_the_same` and `why` of a fact.
void put_exclusions(const Exclusions& chosen, Value& fields);

}  // namespace longhaul
