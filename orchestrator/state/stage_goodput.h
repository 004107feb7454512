// Where the time of a run's trainings went: folded from the epoch logs, the records and the events of every attempt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "contracts/events/warning_event.h"
#include "orchestrator/state/fact.h"
#include "orchestrator/state/host_warnings.h"
#include "orchestrator/state/run_folder.h"
#include "resiliency/goodput/goodput_ledger.h"

namespace longhaul {

// What a lead noticed while the training went on.
struct StageWarning {
  std::int64_t at_ms = 0;
  int attempt = 0;
  WarningEvent warning;
  bool over = false;          // a straggler or a spike that ended, or whose ranks were started anew since
  std::int64_t ended_ms = 0;  // when it was over; 0: it is not
  bool other_hosts = false;   // the launch has several hosts, or a spare one
};

// A slow rank is reported where there is another host to go to, and on a single one when it has lasted so long: until
// then it may be one slow stretch of a core that other programs share, of which nobody can make anything.
inline constexpr std::int64_t straggler_lasts_ms = 600'000;
bool calls_for_action(const StageWarning& noticed, std::int64_t now_ms);

// What its allocations stood idle between their last rank and their end (contracts/records/held_allocation.h). Beside
// the classes of time, not among them: the next job may run meanwhile.
struct HeldAllocations {
  int jobs = 0;
  double held_s = 0, longest_s = 0, gpu_minutes = 0;
};

struct StageGoodput {
  std::string stage;  // id
  GoodputLedger ledger;
  std::vector<StageWarning> warnings;   // by time, those that call for action; ends are not among them
  std::vector<HostWarning> hosts = {};  // by the time of their newest finding
  HeldAllocations held = {};
};

// What a controller decided against its suspicions: nullopt for facts of anything else.
std::optional<StageWarning> warning_of(const Fact& fact);
// Of the events of one attempt, in their order.
std::vector<StageWarning> warnings_of(int attempt, const std::vector<Event>& events);

// Of every stage that has done a step in this run, or of which something was noticed, from its first submission to its
// end, or to `now_ms`. Reads whole event files, of which it parses little (docs/benchmarks.md).
Result<std::vector<StageGoodput>> read_goodput(const std::string& run_dir, std::int64_t now_ms);
// The same of a plan that was read before: the plan of 5,000 stages is the largest file that a round reads.
Result<std::vector<StageGoodput>> read_goodput(const std::string& run_dir, const FrozenRun& frozen,
                                               std::int64_t now_ms);

}  // namespace longhaul
