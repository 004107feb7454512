// What the helper reads from slurmctld, one row per record, with the names of slurm_port.h. Fields that are empty or 0
// are left out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/error/result.h"
#include "base/value/value.h"

namespace longhaul {

using RowSink = std::function<void(Value)>;

Status list_jobs(const RowSink& sink);  // of this user
Status list_job(std::uint32_t id, const RowSink& sink);
Status list_nodes(const RowSink& sink);
Status list_partitions(const RowSink& sink);
Status list_reservations(const RowSink& sink);

// Every later request of this process goes to the slurmctld of this cluster, as slurmdbd knows it.
Status turn_to_cluster(const std::string& name);

struct ControllerFacts {
  Value configuration;
  std::string version;
  std::string propagated_limits, limits_not_propagated, mpi_parameters;
};
Result<ControllerFacts> read_controller();

}  // namespace longhaul
