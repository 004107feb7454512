// How longhaul says to a script what happened. docs/reference/exit-codes.md is written from this table.
#pragma once

#include <string>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

// Do not renumber: scripts of users depend on them.
enum class ExitCode {
  ok = 0,
  internal = 1,
  usage = 2,
  invalid_input = 3,
  not_found = 4,
  run_failed = 5,
  system = 6,
  interrupted = 7,
  timeout = 8,
  conflict = 9,
};

struct ExitCodeText {
  ExitCode code;
  std::string name;
  std::string meaning;
  std::string remedy;
};
const std::vector<ExitCodeText>& exit_code_texts();

ExitCode exit_code_for(ErrorCode code);

}  // namespace longhaul
