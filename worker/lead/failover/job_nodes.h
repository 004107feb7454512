// Which nodes a job has now: Slurm takes one out that it holds to be down, and does not give it back to the job.
#pragma once

#include <string>
#include <vector>

#include "base/error/result.h"
#include "contracts/control/control_times.h"

namespace longhaul {

// Asks squeue, which has to answer within the deadline. unavailable: it does not, or says something else than nodes.
Result<std::vector<std::string>> job_nodes_now(const std::string& job,
                                               std::int64_t deadline_ms = scheduler_question_ms);
Result<std::vector<std::string>> parse_job_nodes(const std::string& text);  // for tests

}  // namespace longhaul
