// The environment of a job as sbatch makes it, and what newer releases say of its tasks: pure, for longhaul-slurm,
// which says the same.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

// What a task asks for, as releases from 24.05 on write it: 2 and "a100:1" -> "cpu=2,gres/gpu:a100=1"; 0 and "" where
// it was not asked for.
std::string tres_per_task(std::uint32_t cpus, const std::string& gpus);

// NAME=value for foreign mpirun programs, whose srun has to say since 23.11 that it launches for one; what the job's
// environment has already stays. hydra: the site lets the MPICH family start its ranks through srun (MpiParams).
std::vector<std::string> launcher_variables(const std::vector<std::string_view>& environment, bool hydra);

// What --export lets through: ALL (which "" means), NONE, or variables with or without a value, ALL among them or not.
struct ExportOption {
  bool everything = false;                 // the option was ALL alone
  bool all = false;                        // ALL among others
  std::map<std::string, std::string> set;  // NAME=value of the option
  std::vector<std::string> named;          // "NAME="

  // Whether an entry NAME=value of the submitting environment goes to the job.
  bool inherits(const std::string& entry) const;
};
ExportOption parse_export(const std::string& option);

}  // namespace longhaul
