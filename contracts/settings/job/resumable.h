// Whether a stage goes on from its saved state in another job.
#pragma once

#include <string>

#include "contracts/settings/job/job_options.h"

namespace longhaul {

// Stages of the engine that train save checkpoints; of anything else its author has to say so (`job.resumable`).
inline bool trains(const std::string& stage_kind) {
  return stage_kind == "pretrain" || stage_kind == "sft" || stage_kind == "align" || stage_kind == "reward";
}
inline bool is_resumable(const std::string& stage_kind, const JobOptions& job) {
  if (job.resumable.empty()) return trains(stage_kind);
  return job.resumable == "yes" && (trains(stage_kind) || stage_kind == "command");
}

}  // namespace longhaul
