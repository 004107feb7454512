// Room orchestrator/cli/session
// What several commands need before they can act: the installation, the run that is meant, the checked plan.
// load_workflow.h goes from command line to plan; asked_run.h finds a run; new_run.h creates and drives one.
// commands.h declares every command; signals.h makes ctrl-C a value; site_constants.h finds measured constants.
// It does not include the commands, which are built on it.
//
// From the command line to a checked plan, for run, validate and plan alike.
#pragma once

#include <string>

#include "orchestrator/cli/options/command_line.h"
#include "orchestrator/cli/session/installation.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/planner.h"

namespace longhaul {

struct LoadedWorkflow {
  std::string text;
  std::string path;  // absolute
  Site site;
  RunPlan plan;
  WrittenStages written;
  Diagnostics diagnostics;            // the plan may be used only without any
  std::vector<std::string> warnings;  // what is worth a line, and keeps nothing from running
  // Only looked at (validate, plan), for several nodes, and nobody named a site: this machine is not meant, and nothing
  // that depends on where it is to run is decided.
  bool no_site = false;
};
// An error only where there is nothing to check: no such workflow or site.
Result<LoadedWorkflow> load_workflow(const CommandLine& line, const Installation& installation);

// `site.KEY=VALUE` of --set, without the prefix "site."; the rest goes to `others` if it is given.
std::vector<std::string> site_sets(const std::vector<std::string>& sets, std::vector<std::string>* others = nullptr);

// The folder of runs that the command line and the site mean, absolute.
std::string runs_folder(const CommandLine& line, const SiteConfig& site);

// Prints "longhaul COMMAND: message" on standard error and returns the exit code. With --json also the document of
// errors on standard output, where that has nothing yet; fail_beside() is for where it has.
ExitCode fail(const CommandLine& line, const Error& error);
ExitCode fail_beside(const CommandLine& line, const Error& error);

// Of a Slurm that cannot be asked from here: nothing that was named is missing, the machine refused (exit code 6).
Error of_this_machine(Error error);

// All problems of one input: as text on standard error, closed by their number and the `consequence` ("nothing was
// started"), or with --json the document of errors. Warnings are sentences.
ExitCode refuse_input(const CommandLine& line, const Diagnostics& problems, const std::string& consequence,
                      const std::vector<std::string>& warnings = {});

}  // namespace longhaul
