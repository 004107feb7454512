// What the logs of a launch say about its end, for the cause in the record.
#pragma once

#include <string>

namespace longhaul {

// What a log says at its end, shortened: the error that the engine ended with, all its lines, or else the last line
// that says something; "" if there is none.
std::string last_words(const std::string& path);

struct LastWords {
  int rank = 0;
  std::string text;
};
// Of ranks that mpirun started: the first that ended with an error of its own; else the one that mpirun names as ended
// by a signal, with mpirun's words; else the end of rank 0's log, or of mpirun's own.
LastWords last_words_of_ranks(const std::string& launch_dir, int ranks);

}  // namespace longhaul
