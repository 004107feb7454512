// The one table of faults that can be injected by name: the twelve of nvidia-resiliency-ext's fault injector (written
// there as here) and our own. A row says how the fault is made; one that this version cannot make says why, and is
// refused by that text. From outside wherever that is possible: by a signal, by a damaged file, by a program of ours
// that ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contracts/schema/field_table.h"
#include "contracts/settings/job/fault_commands.h"

namespace longhaul {

enum class FaultMeans {
  signal,         // to the process of a rank, sent by the agent of its node, or by the lead where there is none
  point,          // a point in the engine (base/process/fault_point.h) behaves as if it had failed, once
  slow,           // a rank is stopped for half of the time
  freeze_host,    // the ranks and the agent of a node are stopped for good
  silence_agent,  // an agent goes on without a message to its lead
  end_standby,    // the agent that would follow the lead is killed
  end_lead,       // the lead is killed
  damage_file,    // a byte of a checkpoint's shard is changed on disk
  gpu_script,  // the simulated NVML of the rank's node says it (tests/support/fake_libraries/fake_nvml.cc); a real one
               // cannot be scripted
  site_command,  // a program that the site names (contracts/settings/job/fault_commands.h), run by the lead
  message,       // to a Python program over the socket on which it says what it does (resiliency/beat/beat_line.h)
  none,          // cannot be made here
};

struct NamedFault {
  const char* name;  // stands in workflows and events: do not rename
  FaultMeans means;
  int signal;         // FaultMeans::signal
  const char* point;  // FaultMeans::point: point and action, as a fault plan has them
  const char* what;   // what happens; of a fault that cannot be made: why not, and what does it instead
};
const std::vector<NamedFault>& named_faults();
const NamedFault* find_named_fault(const std::string& name);

// One fault to be injected, as a person writes it.
struct FaultRequest {
  std::string name;
  int rank = 0;               // it happens to this rank, or to its node
  std::int64_t step = 0;      // as soon as a rank of the present launch has reached this step; 0: does not count
  Seconds after{0};           // as soon as the stage's first job has run for so long; 0: does not count
  Seconds lasts{5};           // of slow_rank, dropped_heartbeat, ecc_storm, cut_network and slurmctld_down
  bool every_launch = false;  // again in every launch of the ranks, as a fault of the program itself would be
  int xid = 0;                // of the fault xid: the number of the driver's event
  bool operator==(const FaultRequest&) const = default;
};
const FieldTable<FaultRequest>& fault_request_fields();

// What of a stage and its site decides which faults it can be given.
struct FaultTarget {
  std::string stage_kind;  // "": not known here, and not judged
  int ranks = 1;
  const FaultCommands* commands = nullptr;  // of the site; null: not known here, and not judged
  bool health_watched = true;               // somebody looks at the GPUs: resiliency.health is not "off"
};
// What is wrong with it for that stage, at the places of `written`; `timed`: it has to say when.
void check_fault_request(const FaultRequest& request, const Value& written, const std::string& where,
                         const FaultTarget& target, bool timed, Diagnostics& diagnostics);
// "SIGKILL of rank 1 at step 20"
std::string fault_request_text(const FaultRequest& request);

}  // namespace longhaul
