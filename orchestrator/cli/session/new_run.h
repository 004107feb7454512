// A new run from a checked plan, driven in the foreground: what run, tune and the calibration share.
#pragma once

#include <optional>
#include <string>

#include "orchestrator/cli/options/command_line.h"
#include "orchestrator/cli/session/asked_run.h"
#include "orchestrator/cli/session/installation.h"
#include "orchestrator/cli/session/load_workflow.h"

namespace longhaul {

struct NewRun {
  std::string run_dir, driver;
  std::string driver_line;  // who drives it, and why: for a person, before anything is submitted
};

// Everything is checked before anything is created. The exit code is set where nothing was started. `shared`: its
// artifacts are found by later runs, and those of earlier ones by it.
std::optional<NewRun> create_checked_run(const CommandLine& line, const Installation& installation,
                                         Result<LoadedWorkflow> loaded, const std::string& driver, bool shared,
                                         ExitCode& exit);

// The user's own newest run of the same plan in this folder; "": there is none.
std::string newest_run_of(const RunPlan& plan, const std::string& runs_dir);

// A run that has ended is asked to go on.
Status ask_to_go_on(const std::string& run_dir);

// In the foreground, with its progress, to its end or a signal.
ExitCode drive_to_end(const CommandLine& line, const ActingRun& run);

// Options for tests; nothing without them.
Status load_own_fault_plan(const CommandLine& line);

}  // namespace longhaul
