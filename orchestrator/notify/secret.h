// A secret from the one file or the one environment variable that a site file names. It is held in memory while it is
// used and goes nowhere else: no log, no file of a run, no command line, no error message.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/error/result.h"

namespace longhaul {

// Handed down from main; tests give their own.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

// `what` names it in errors ("the webhook's address"). A file of another user, or that others may read, is refused,
// with the remedy. Neither file nor variable: "".
Result<std::string> read_secret(const std::string& what, const std::string& file, const std::string& variable,
                                const Environment& environment);

}  // namespace longhaul
