// One function per command: what it does when it is asked for. Results go to standard output, problems to standard
// error.
#pragma once

#include "orchestrator/cli/options/command_line.h"
#include "orchestrator/cli/session/installation.h"

namespace longhaul {

ExitCode init_workflow(const CommandLine& line, const Installation& installation);
ExitCode run_workflow(const CommandLine& line, const Installation& installation);
ExitCode submit_workflow(const CommandLine& line, const Installation& installation);
ExitCode validate_workflow(const CommandLine& line, const Installation& installation);
ExitCode show_plan(const CommandLine& line, const Installation& installation);
ExitCode show_status(const CommandLine& line, const Installation& installation);
ExitCode show_runs(const CommandLine& line, const Installation& installation);
ExitCode show_status_of_several(const CommandLine& line, const Installation& installation);
ExitCode show_logs(const CommandLine& line, const Installation& installation);
ExitCode show_checkpoints(const CommandLine& line, const Installation& installation);
ExitCode cancel_run(const CommandLine& line, const Installation& installation);
ExitCode resume_run(const CommandLine& line, const Installation& installation);
ExitCode tick_run(const CommandLine& line, const Installation& installation);
ExitCode write_run_report(const CommandLine& line, const Installation& installation);
ExitCode show_docs(const CommandLine& line, const Installation& installation);
ExitCode show_explanation(const CommandLine& line, const Installation& installation);
ExitCode show_doctor(const CommandLine& line, const Installation& installation);
ExitCode examine_site(const CommandLine& line, const Installation& installation);    // doctor --site
ExitCode examine_by_job(const CommandLine& line, const Installation& installation);  // doctor --site --job
ExitCode show_sites(const CommandLine& line, const Installation& installation);
ExitCode tell_run(const CommandLine& line, const Installation& installation);
ExitCode send_run_messages(const CommandLine& line, const Installation& installation);
ExitCode fork_run(const CommandLine& line, const Installation& installation);
ExitCode collect_garbage(const CommandLine& line, const Installation& installation);
ExitCode show_faults(const CommandLine& line, const Installation& installation);
ExitCode write_support_bundle(const CommandLine& line, const Installation& installation);
ExitCode simulate_scenario(const CommandLine& line, const Installation& installation);
ExitCode tune_workflow(const CommandLine& line, const Installation& installation);
ExitCode calibrate_site(const CommandLine& line, const Installation& installation);  // tune --calibrate
ExitCode ask_serving(const CommandLine& line, const Installation& installation);
ExitCode ask_size(const CommandLine& line, const Installation& installation);
ExitCode check_data(const CommandLine& line, const Installation& installation);
ExitCode show_completion(const CommandLine& line, const Installation& installation);

ExitCode run_command(const CommandLine& line, const Installation& installation);

}  // namespace longhaul
