// `longhaul-worker rank --log-dir DIR --beat-dir DIR -- PROGRAM ...`: stands between mpirun and one rank, sends its
// output to a file of its own and becomes the program. Only returns on an error.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace longhaul {

// `rank_text` is what the launcher's environment says (OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK or SLURM_PROCID).
// `slurm_step` is "JOB.STEP" where the lead has to know it to signal the step; the first rank leaves it for the lead.
// `beat_dir`: where its page is to lie on this node; it is made where it is not there.
Status exec_rank(const std::string& log_dir, const std::string& beat_dir, const std::string& rank_text,
                 const std::string& slurm_step, const std::vector<std::string>& program);

}  // namespace longhaul
