// What a starter of ranks is given: its arguments, and the launcher's variables in the environment.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace longhaul {

struct RankArguments {
  std::string log_dir, beat_dir;
  bool near_gpu = false;  // it is to run beside its GPU (near_gpu.h)
  std::vector<std::string> program;
};
// "rank --log-dir DIR --beat-dir DIR [--near-gpu] -- PROGRAM ..."; nullopt: something else.
std::optional<RankArguments> parse_rank_arguments(const std::vector<std::string>& arguments);

// A variable of the environment; "" where there is none.
using Variable = std::function<std::string(const char* name)>;
// Which rank this process is, by mpirun or srun; "": none of them has started it.
std::string launcher_rank(const Variable& variable);
// "JOB.STEP" of one of several programs in a job, else "".
std::string slurm_step(const Variable& variable);

}  // namespace longhaul
