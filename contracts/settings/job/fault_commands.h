// [faults] of a site file: programs of the site that make faults which a job has no power to make. Each is program and
// arguments, split at spaces; {host} stands for the node as the scheduler calls it, {seconds} for how long the fault is
// to last. The lead runs it on its own node and does not wait for it. The program undoes what it did once the time is
// over, by means that do not end with the job; exit code 0 says that the fault was there.
#pragma once

#include <string>
#include <vector>

#include "contracts/schema/field_table.h"

namespace longhaul {

struct FaultCommands {
  std::string cut_network;     // {host} is cut off for {seconds}; "": the site has none
  std::string slurmctld_down;  // the controller is down for {seconds}
  Seconds deadline{60};        // of a command, besides what its fault lasts; then it is ended
  bool operator==(const FaultCommands&) const = default;
  // Of the fault with that name; "": there is none.
  const std::string& of(const std::string& fault) const;
};
const FieldTable<FaultCommands>& fault_commands_fields();

// What the field table cannot say: an unknown placeholder, a cut that does not say whom. `written`: the table [faults].
void check_fault_commands(const FaultCommands& commands, const Value& written, Diagnostics& diagnostics);
// Program and arguments, with the placeholders filled in.
std::vector<std::string> fault_command_arguments(const std::string& command, const std::string& host, Seconds lasts);

}  // namespace longhaul
