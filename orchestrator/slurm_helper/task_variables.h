// What newer releases of sbatch say of a job's tasks: pure, for longhaul-slurm, which says the same.
#pragma once

#include <cstdint>
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

}  // namespace longhaul
