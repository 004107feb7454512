// Words as sbatch reads them in `#SBATCH` lines (Slurm's sbatch/opt.c): blanks separate, `#` begins a comment, single
// and double quotes hold blanks and `#`, a backslash takes the next character as it is, also inside of quotes.
#pragma once

#include <string>
#include <string_view>

#include "base/error/result.h"

namespace longhaul {

// `#SBATCH --option=value`; value "" for a flag.
struct Directive {
  std::string option, value;
  std::string origin;  // "site marenostrum5-acc: classes.prod.qos", "workflow: stage.pretrain.nodes", "default: ..."
};

// No byte below 32 and no DEL: what may stand on one line of a script or a configuration.
bool is_one_line(std::string_view text);
// For comments: such bytes become '?'.
std::string one_line(std::string_view text);

// `value` so that sbatch reads it back byte by byte. invalid_input: control characters, too long for sbatch's buffer.
Result<std::string> sbatch_quoted(std::string_view value);

// "2-04:00:00", "04:00:00"; rounded up to seconds.
std::string sbatch_time(double seconds);

// A path as part of --output, where `%` begins a pattern and a backslash ends all patterns.
std::string sbatch_file_pattern(std::string_view path);

// Letters, digits, '.', '_', '-' only; '_' for every other byte; at most 100.
std::string sbatch_job_name(std::string_view text);

}  // namespace longhaul
