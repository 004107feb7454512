// What a user says once for all runs: LONGHAUL_SITE, LONGHAUL_RUNS and ~/.config/longhaul.toml (site, account, runs).
// The command line goes before the variables, they before the file, and the file before what a site's file says.
#pragma once

#include <string>

#include "base/error/result.h"
#include "orchestrator/cli/options/command_line.h"

namespace longhaul {

// Where a value comes from: "LONGHAUL_SITE", "/home/ana/.config/longhaul.toml"; "" where there is none.
struct UserDefault {
  std::string value, from;
};
struct UserDefaults {
  UserDefault site, account, runs;
};

// What the environment says, read in main().
struct UserEnvironment {
  std::string site, runs;   // LONGHAUL_SITE, LONGHAUL_RUNS; "": not set
  std::string config_file;  // $XDG_CONFIG_HOME/longhaul.toml or ~/.config/longhaul.toml; it need not exist
};

// Pure but for the file. A relative path of `runs` or of a site's file starts in that file's folder. invalid_input: the
// file cannot be read, is not TOML, or has another key.
Result<UserDefaults> read_user_defaults(const UserEnvironment& environment);

// Fills in what the command line does not say. Not for rounds of a job, whose site is the run's own; the account only
// where a site is named here, for another one has others.
void apply_user_defaults(const UserDefaults& defaults, CommandLine& line);

// For `doctor`, in one line: each value with its origin; or that there is none, and where one could stand.
std::string user_defaults_text(const UserDefaults& defaults, const UserEnvironment& environment);

}  // namespace longhaul
