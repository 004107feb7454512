// Room orchestrator/slurm_helper
// longhaul-slurm, the only program that links libslurm: JSON requests in, JSON answers out.
// main.cc has the protocol; job_description.h makes what sbatch would submit; queries.h reads jobs and nodes.
// batch_options.h, option_values.h and job_sizes.h read #SBATCH lines as sbatch does, without libslurm.
// It is GPL and rebuilt at each site, so it includes only base and contracts, nothing of longhaul.
//
// Makes of a script, its options and arguments what sbatch would hand to slurmctld: fields, defaults that follow from
// one another, environment. Owns everything that the structure points to.
#pragma once

#include <slurm/slurm.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error/result.h"
#include "orchestrator/slurm_helper/option_reader.h"

namespace longhaul {

struct JobRequest {
  std::string script;  // path
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> options;  // win over the script's
};

// What is the same for all submissions of this process, collected once.
struct SubmitContext {
  // NAME=value, without what an outer job of Slurm's set (SLURM_*, SBATCH_*, its GPUs), with what sbatch adds.
  std::vector<std::string> environment;
  std::string working_directory;
  bool hydra_bootstrap = true;  // mpirun of the MPICH family starts ranks through srun, where nothing else is chosen
};
SubmitContext make_submit_context(const std::string& propagated_limits, const std::string& limits_not_propagated);

class JobDescription {
 public:
  static Result<JobDescription> make(const JobRequest& request, const SubmitContext& context);
  job_desc_msg_t& message() { return *message_; }
  JobDescription(JobDescription&&) noexcept = default;
  JobDescription& operator=(JobDescription&&) noexcept = default;

 private:
  JobDescription() : message_(std::make_unique<job_desc_msg_t>()) {}
  void set_environment(std::vector<std::string> variables, const std::string& exported, const SubmitContext& context);
  void set_arguments(const JobRequest& request);

  TextStore texts_;
  std::vector<char*> arguments_, environment_;
  std::unique_ptr<job_desc_msg_t> message_;
};

}  // namespace longhaul
