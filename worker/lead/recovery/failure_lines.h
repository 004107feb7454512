// What the logs of a launch say about its end, for the cause in the record.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "resiliency/taxonomy/log_root.h"

namespace longhaul {

// What a log says at its end, shortened: the error that the engine ended with, all its lines, or else the last line
// that says something; "" if there is none.
std::string failure_lines(const std::string& path);

// Ranks of the engine agree upon an error, and all but the one that has it report it as "... rank 2: what"
// (CollectiveGroup::agree). -1: the text blames nobody.
int blamed_rank(std::string_view text);

// The line by which the log of a launcher says that it could not start ranks, or not bring them together.
std::optional<std::string> launcher_gave_up(const std::string& path);

// One rank's log in the folder of a launch or of a step of it; `ended_ms` of any one clock, 0 if not known.
struct RankLog {
  int rank = 0;
  std::string host;
  std::int64_t ended_ms = 0;
};

struct FailureLines {
  int rank = 0;  // -1: no one
  std::string text;
  std::optional<LogRoot> root;  // where a log has a line that says why, by resiliency/taxonomy/log_root.h
  // Ranks whose end srun reports before it ended the others, in its order; empty: it says nothing of the kind.
  std::vector<int> ended_first;
  std::string first_end;  // its line about the first of them
};
// Of ranks that a launcher started: the one whose log says why the launch ended; else one of the node on which the
// launcher says that it could start none; else the one that mpirun or srun names as ended first, with its message; else
// who lost another one; else the end of rank 0's log, or of mpirun's own.
FailureLines failure_lines_of_ranks(const std::string& launch_dir, const std::vector<RankLog>& ranks);

}  // namespace longhaul
