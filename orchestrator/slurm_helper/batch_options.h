// What a batch script asks for: its #SBATCH lines, read the way sbatch reads them (slurm 22.05 and later).
//   - "#SBATCH" at the very start of a line, up to the first line that is neither empty nor a comment;
//   - words are separated by blanks; quotes group; a backslash takes the next character as it is, within quotes as
//   well;
//   - an unquoted # ends the line, also within a word.
// Pure: no libslurm.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

struct BatchOption {
  std::string name;        // long name without dashes
  std::string value;       // "" where there is none
  bool has_value = false;  // --exclusive against --exclusive=user
  int line = 0;            // of the script; 0: given apart from it
};

// Options of the script followed by `overrides`, so that the last one of a name wins. invalid_input, with file and
// line: an option that this program does not pass on; a value that is missing; a word that is no option; an unmatched
// quote.
Result<std::vector<BatchOption>> batch_options(const std::string& script_text, const std::string& script_path,
                                               const std::vector<std::pair<std::string, std::string>>& overrides);

}  // namespace longhaul
