// How a rank ended by its own account. A program of ours writes its exit code to its page before it ends; the status of
// a launcher may report instead how it has ended the others because of that (mpirun: signal 9).
#pragma once

#include <optional>
#include <string>

#include "base/process/process.h"

namespace longhaul {

// Of the section in which a rank has ended: "failed 3" is 3. Nothing where it says no code.
std::optional<int> reported_exit_code(const std::string& section);
// What to judge of the rank that a launch ended for: its own report, and its launcher's where it has said none.
ExitStatus end_of_rank(const std::string& section, const ExitStatus& launcher);

}  // namespace longhaul
