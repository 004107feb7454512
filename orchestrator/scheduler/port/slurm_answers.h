// What Slurm's commands print, read into the port's structs. Pure. What is not there is 0 or empty.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/scheduler/port/slurm_port.h"

namespace longhaul {

// Of `scontrol -o show nodes`, `partitions`, `reservations`: a line each.
std::vector<SlurmNode> read_slurm_nodes(const std::string& text);
std::vector<SlurmPartition> read_slurm_partitions(const std::string& text);
std::vector<SlurmReservation> read_slurm_reservations(const std::string& text);
// Of `scontrol show config`.
SlurmConfiguration read_slurm_configuration(const std::string& text);
// Of `sbatch --test-only`, on standard error.
SlurmWillRun read_slurm_will_run(const std::string& text);

}  // namespace longhaul
