#include "orchestrator/cli/session/commands.h"

namespace longhaul {

ExitCode run_command(const CommandLine& line, const Installation& installation) {
  switch (line.command) {
    case Command::init: return init_workflow(line, installation);
    case Command::run: return run_workflow(line, installation);
    case Command::submit: return submit_workflow(line, installation);
    case Command::validate: return validate_workflow(line, installation);
    case Command::plan: return show_plan(line, installation);
    case Command::status: return show_status(line, installation);
    case Command::runs: return show_runs(line, installation);
    case Command::logs: return show_logs(line, installation);
    case Command::checkpoints: return show_checkpoints(line, installation);
    case Command::cancel: return cancel_run(line, installation);
    case Command::resume: return resume_run(line, installation);
    case Command::tick: return tick_run(line, installation);
    case Command::report: return write_run_report(line, installation);
    case Command::docs: return show_docs(line, installation);
    case Command::explain: return show_explanation(line, installation);
    case Command::doctor:
      if (line.job) return examine_by_job(line, installation);
      return line.site_given ? examine_site(line, installation) : show_doctor(line, installation);
    case Command::sites: return show_sites(line, installation);
    case Command::tell: return tell_run(line, installation);
    case Command::notify: return send_run_messages(line, installation);
    case Command::fork: return fork_run(line, installation);
    case Command::gc: return collect_garbage(line, installation);
    case Command::faults: return show_faults(line, installation);
    case Command::support_bundle: return write_support_bundle(line, installation);
    case Command::simulate: return simulate_scenario(line, installation);
    case Command::tune: return tune_workflow(line, installation);
    case Command::serving: return ask_serving(line, installation);
    case Command::size: return ask_size(line, installation);
    case Command::data: return check_data(line, installation);
    case Command::completion: return show_completion(line, installation);
    case Command::none: break;
  }
  return ExitCode::usage;
}

}  // namespace longhaul
