// How a lead gives back the allocation of its job, where the node of the job's script is gone and Slurm does not end
// the job by itself.
#pragma once

#include <string>
#include <vector>

#include "contracts/records/attempt.h"

namespace longhaul {

// The arguments of `scancel`. Where a later attempt of the stage is there, the job goes whatever state it is in. Where
// none is, a job that Slurm has queued again for the lost node is what goes on, and is left in the queue: only its
// running part is ended.
std::vector<std::string> allocation_end_arguments(const std::string& job, bool followed);
// Whether the stage has an attempt after this one.
bool has_later_attempt(const Attempt& attempt);

}  // namespace longhaul
