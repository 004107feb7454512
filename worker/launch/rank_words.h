// What a starter of ranks is told: by its words, and by the launcher through the environment.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace longhaul {

struct RankWords {
  std::string log_dir, beat_dir;
  bool near_gpu = false;  // it is to run beside its GPU (near_gpu.h)
  std::vector<std::string> program;
};
// "rank --log-dir DIR --beat-dir DIR [--near-gpu] -- PROGRAM ..."; nullopt: something else.
std::optional<RankWords> parse_rank_words(const std::vector<std::string>& words);

// A variable of the environment; "" where there is none.
using Variable = std::function<std::string(const char* name)>;
// Which rank this process is, by mpirun or srun; "": none of them has started it.
std::string launcher_rank(const Variable& variable);
// "JOB.STEP" of one of several programs in a job, else "".
std::string slurm_step(const Variable& variable);

}  // namespace longhaul
