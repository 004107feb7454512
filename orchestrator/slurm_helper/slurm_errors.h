// Slurm's error numbers as ours: what a caller has to distinguish (slurm_port.h), with Slurm's own message.
#pragma once

#include <string>

#include "base/error/result.h"

namespace longhaul {

// "cannot submit x.sbatch: Invalid account or account/partition combination specified (Slurm error 2045)"
Error slurm_error(const std::string& what, int number);
// Nobody answered, so that the request may or may not have been carried out, and the next one will not be either.
bool is_connection_error(int number);

}  // namespace longhaul
