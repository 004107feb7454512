// `longhaul-worker rank --log-dir DIR --beat-dir DIR [--near-gpu] -- PROGRAM ...`: stands between mpirun and one rank,
// sends its output to a file of its own and becomes the program. Only returns on an error.
#pragma once

#include "base/error/result.h"
#include "worker/launch/rank_arguments.h"

namespace longhaul {

// Its rank is what the launcher's environment says (launcher_rank). Of one of several programs in a job the first rank
// leaves the step's number for the lead, which signals it. Its page lies in arguments.beat_dir, which is made where it
// is not there.
Status exec_rank(const RankArguments& arguments, const Variable& variable);

}  // namespace longhaul
