// Options of a script, written into the message for slurmctld. What becomes a field only together with other options is
// kept beside it, as sbatch does; job_description.cc completes the message with it.
#pragma once

#include <slurm/slurm.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error/result.h"
#include "orchestrator/slurm_helper/batch_options.h"
#include "orchestrator/slurm_helper/job_sizes.h"

namespace longhaul {

// Owns the texts that a message points to; they stay where they are.
class TextStore {
 public:
  char* keep(std::string text) {
    texts_.push_back(std::move(text));
    return texts_.back().data();
  }

 private:
  std::deque<std::string> texts_;
};

struct KeptOptions {
  JobSizes sizes;
  std::string gpus, gpus_per_node, gpus_per_socket, gpus_per_task, gres, cpus_per_gpu, nodelist;
  std::optional<std::uint64_t> mem, mem_per_cpu, mem_per_gpu;  // MiB
  std::string exported, hint, tasks_per_gpu;
};

// invalid_input, with the line of the script: the first value that sbatch would not take either.
Result<KeptOptions> read_options(const std::vector<BatchOption>& options, const std::string& script,
                                 job_desc_msg_t& message, TextStore& texts);

}  // namespace longhaul
