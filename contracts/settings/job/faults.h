// [stage.x.faults]: faults that are to be injected into a stage, for a test of what follows them. Without that table,
// and without `allow_fault_injection = true` in [workflow], a stage takes none, whoever asks. Nothing here changes
// results: no key of it is part of a task's key.
//
//   [stage.pretrain.faults]
//   at = [ { name = "SIGKILL", rank = 1, step = 20 }, { name = "dropped_heartbeat", rank = 2, after = "10s" } ]
//   schedule = { seed = 7, every = "30s", names = ["SIGKILL", "SIGSTOP", "ASYNC_EXC"], count = 20 }
#pragma once

#include <string>
#include <vector>

#include "contracts/settings/job/named_fault.h"

namespace longhaul {

// Faults at times drawn from the seed (resiliency/inject/fault_schedule.h).
struct FaultSchedule {
  std::int64_t seed = 0;
  Seconds every{30};               // on average
  std::vector<std::string> names;  // drawn with equal chance; none: no schedule
  int count = 100;                 // no more than these
  int xid = 79;                    // of those that are named xid
  bool operator==(const FaultSchedule&) const = default;
};
const FieldTable<FaultSchedule>& fault_schedule_fields();

struct FaultSettings {
  bool allowed = false;  // written, or the workflow is marked as a test
  std::vector<FaultRequest> at;
  FaultSchedule schedule;
  FaultCommands commands;  // of the site
  bool operator==(const FaultSettings&) const = default;
};

// What a workflow says at [`where`.faults]; all that is wrong with it goes to the diagnostics.
FaultSettings parse_faults(const Value& written, const std::string& where, const FaultTarget& target,
                           Diagnostics& diagnostics);

// In files of our own. An empty table: not allowed.
Value faults_to_value(const FaultSettings& settings);
Result<FaultSettings> faults_from_value(const Value& value);

}  // namespace longhaul
