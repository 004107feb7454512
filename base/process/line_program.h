// A program of the user's that is asked in lines: one run of it reads a text to its end, and prints a line for each
// line of it, in their order.
#pragma once

#include <string>
#include <vector>

#include "base/process/process.h"

namespace longhaul {

struct PrintedLines {
  std::vector<std::string> lines;  // without their ends; a last one of white space alone is left out
  std::string end;      // "exit code 1 (the last line that it wrote to stderr)"; without the line where it wrote none
  bool failed = false;  // its end is no exit code 0: who asked decides what its lines are worth then
};

// `argv` gets `input` from memory, so that it need not read in order to print. It is ended, with what it has started in
// its process group, after `deadline_ms` (timeout), and where it prints more than `output_max` bytes (unavailable). A
// program that fails is no error here. Thread-safe.
Result<PrintedLines> run_in_lines(const std::vector<std::string>& argv, const std::string& input,
                                  std::int64_t deadline_ms, std::size_t output_max);

}  // namespace longhaul
