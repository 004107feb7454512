// What the rows of longhaul-slurm's answers say (orchestrator/slurm_helper/queries.cc writes them): a key that a row
// lacks leaves the default.
#pragma once

#include "base/value/value.h"
#include "orchestrator/scheduler/port/slurm_port.h"

namespace longhaul {

SlurmJob job_of(const Value& row);
SlurmNode node_of(const Value& row);
SlurmPartition partition_of(const Value& row);
SlurmReservation reservation_of(const Value& row);
SlurmConfiguration configuration_of(const Value& row);

}  // namespace longhaul
