// run, resume, cancel and tick: the commands that act on a run.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <optional>

#include "base/files/files.h"
#include "base/files/folder_access.h"
#include "base/files/owned_files.h"
#include "base/process/fault_point.h"
#include "base/process/log.h"
#include "base/system/clock.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/text/visible_text.h"
#include "base/toml.h"
#include "orchestrator/cli/session/asked_run.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/drive_session.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/cli/session/log_tail.h"
#include "orchestrator/cli/session/new_run.h"
#include "orchestrator/cli/session/own_environment.h"
#include "orchestrator/cli/session/signals.h"
#include "orchestrator/cli/session/site_constants.h"
#include "orchestrator/cli/session/status_document.h"
#include "orchestrator/cli/session/workflow_fit.h"
#include "orchestrator/controller/drivers.h"
#include "orchestrator/controller/follower.h"
#include "orchestrator/controller/run_messages.h"
#include "orchestrator/controller/tick.h"
#include "orchestrator/forecast/layout_candidates.h"
#include "orchestrator/forecast/measured_trainings.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/preflight/launcher_check.h"
#include "orchestrator/preflight/preflight.h"
#include "orchestrator/preflight/timeout_check.h"
#include "orchestrator/render/plan/plan_text.h"
#include "orchestrator/render/report/report.h"
#include "orchestrator/render/run/failure_text.h"
#include "orchestrator/render/run/left_servers.h"
#include "orchestrator/render/run/progress_view.h"
#include "orchestrator/render/run/status_text.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/scheduler/port/mpi_types.h"
#include "orchestrator/scheduler/port/open_slurm_port.h"

namespace longhaul {
namespace {

constexpr std::int64_t last_messages_deadline_ms = 20'000;

bool is_running(const RunStatus& status) {
  return status.state == RunState::running;
}

ExitCode exit_of(RunState state) {
  switch (state) {
    case RunState::succeeded: return ExitCode::ok;
    case RunState::failed: return ExitCode::run_failed;
    case RunState::cancelled:
    case RunState::running: return ExitCode::interrupted;
  }
  return ExitCode::internal;
}

// The last messages of a run: its end is the last that this process does for it.
void send_last_messages(const std::string& run_dir, Clock& clock) {
  const auto config = notify_config_of(run_dir);
  const Environment environment = process_environment();
  if (!config.ok() || !config->enabled() || !may_send_here(*config, environment)) return;
  DeliveryOptions options;
  options.deadline_ms = last_messages_deadline_ms;
  options.wait = true;
  const auto report = deliver_outbox(run_dir, *config, environment, clock, options);
  const std::string problem = report.ok() ? report->problem : report.error().message();
  if (!report.ok() || report->waiting + report->given_up > 0)
    print(stderr, "longhaul: messages could not be sent: {}\n  longhaul notify {}\n", problem, shell_quoted(run_dir));
}

// How the run is doing as a command ends with `exit`: the document of --json, or nothing.
ExitCode with_document(const CommandLine& line, const std::string& run_dir, const Clock& clock, ExitCode exit) {
  if (!line.json) return exit;
  const bool calibrated = line.calibrate && (exit == ExitCode::ok || exit == ExitCode::run_failed);
  if (calibrated) return exit;  // its document follows (calibrate_command.cc)
  const bool tunes = line.command == Command::tune;
  const Status printed =
      tunes ? print_tune_document(run_dir, clock.wall_ms()) : print_status_document(run_dir, clock.wall_ms());
  return printed.ok() ? exit : fail(line, printed.error());
}

ExitCode finish(const CommandLine& line, const std::string& run_dir, Clock& clock) {
  send_last_messages(run_dir, clock);
  auto story = read_run_story(run_dir);
  if (!story.ok()) return fail(line, story.error());
  if (!line.json) print_text(stdout, "\n" + run_end_text(*story, clock.wall_ms()));
  const auto report = write_report(*story, join_path(run_dir, "report"), clock.wall_ms());
  if (!report.ok()) print(stderr, "longhaul: no report: {}\n", report.error().message());
  const ExitCode exit = exit_of(story->status.state);
  if (line.json) return with_document(line, run_dir, clock, exit);
  print_text(stdout, left_servers_text(left_servers(story->status), run_dir));
  if (report.ok()) print(stdout, "\nreport: {}\n", *report);
  print(stdout, "run:    {}\n", run_dir);
  return exit;
}

ExitCode left_running(const CommandLine& line, const std::string& run_dir, const Clock& clock) {
  print(stderr,
        "left: the jobs go on, and nothing new starts until somebody drives the run\n  longhaul resume {}\n  "
        "longhaul cancel {}\n",
        shell_quoted(run_dir), shell_quoted(run_dir));
  return with_document(line, run_dir, clock, ExitCode::interrupted);
}

}  // namespace

ExitCode drive_to_end(const CommandLine& line, const ActingRun& run) {
  const std::string& run_dir = run.path;
  DriveSession session(run, line);
  auto status = session.drive_until(0);
  if (!status.ok()) return fail(line, status.error());
  if (is_running(*status)) {
    if (session.watch().last() != SIGINT) return left_running(line, run_dir, session.clock());
    print(stderr, "stopped driving {}; ctrl-C again within 5 s cancels the run\n", file_name(run_dir));
    if (!session.second_signal()) return left_running(line, run_dir, session.clock());
    print(stderr, "cancelling: ending the jobs\n");
    status = session.cancel();
    if (!status.ok()) return fail(line, status.error());
    if (session.timed_out())
      return fail(line, make_error(ErrorCode::timeout, "the jobs have not ended within 2 minutes",
                                   "longhaul status " + shell_quoted(run_dir)));
    if (is_running(*status)) return left_running(line, run_dir, session.clock());
  }
  return finish(line, run_dir, session.clock());
}

Status load_own_fault_plan(const CommandLine& line) {
  if (line.fault_plan.empty()) return {};
  return load_fault_plan(line.fault_plan);
}

namespace {

Result<ActingRun> find_asked_run(const CommandLine& line, const Installation& installation) {
  LH_CHECK(load_own_fault_plan(line));
  return acting_run(line, installation);
}

// The other programs are needed before anything is created.
Status check_programs(const RunPlan& plan, const Installation& installation) {
  std::vector<std::string> programs = {"longhaul-worker"};
  for (const PlannedStage& stage : plan.stages)
    if (stage.kind != "command" && programs.size() == 1) programs.emplace_back("longhaul-engine");
  for (const std::string& program : programs)
    if (::access(join_path(installation.programs_dir, program).c_str(), X_OK) != 0)
      return make_error(ErrorCode::unavailable, program + " is not beside longhaul in " + installation.programs_dir,
                        "build or install all programs");
  return {};
}

// The port, and from it what the cluster says of wall times that the site file leaves open.
Result<OpenedSlurmPort> ask_walls(Site& site, const Installation& installation) {
  auto opened = open_slurm_port(site.config.slurm_backend, installation.programs_dir, site.config.programs,
                                submission_deadline_ms, site.config.cluster);
  if (!opened.ok()) return of_this_machine(opened.error());
  if (const auto partitions = opened->port->partitions(); partitions.ok()) take_walls_from(*partitions, site);
  return opened;
}

// Against the site file, then against the machine itself. A slurmctld that does not answer now is waited for later.
Status check_jobs(Result<OpenedSlurmPort>& opened, const Site& site, const RunPlan& plan, const std::string& runs,
                  Diagnostics& diagnostics) {
  const auto jobs = plan_jobs(site, plan, diagnostics);
  if (!diagnostics.empty()) return {};
  using Unseen = Result<std::vector<std::string>>;
  const Unseen asked =
      opened.ok() ? check_with_slurm(*opened->port, plan, jobs, runs, diagnostics) : Unseen(opened.error());
  if (!asked.ok() && asked.error().code != ErrorCode::unavailable) return asked.error();
  if (asked.ok()) check_gpus_with_slurm(*opened->port, site, plan, jobs, diagnostics);
  if (asked.ok())
    if (const auto slurm = opened->port->configuration(); slurm.ok()) {
      check_timeouts(site, plan, jobs, *slurm, diagnostics);
      check_slurm_release(plan, jobs, *slurm, diagnostics);
      if (const auto known = ask_mpi_types(); known.ok()) check_mpi_types(site, jobs, *known, diagnostics);
    }
  if (!asked.ok()) print(stderr, "not checked with Slurm: {}\n", asked.error().message());
  for (const std::string& unseen : asked.ok() ? *asked : std::vector<std::string>())
    print(stderr, "not checked with Slurm: {}\n", unseen);
  check_modules(site, plan, diagnostics);
  return {};
}

// Not of `tune`, which looks for what fits. Warnings are printed.
void check_fit(const CommandLine& line, const Installation& installation, LoadedWorkflow& loaded) {
  if (line.command == Command::tune) return;
  const FitFindings fit = workflow_fit(line, installation, loaded);
  print_text(stderr, fit.warnings_text());
  loaded.diagnostics.merge(fit.refused());
}

}  // namespace

std::optional<NewRun> create_checked_run(const CommandLine& line, const Installation& installation,
                                         Result<LoadedWorkflow> loaded, const std::string& driver, bool shared,
                                         ExitCode& exit) {
  const auto refuse = [&](const Error& error) {
    exit = fail(line, error);
    return std::nullopt;
  };
  if (!loaded.ok()) return refuse(loaded.error());
  const auto chosen = choose_driver(driver, loaded->site);
  if (chosen.ok()) fit_site_to_driver(chosen->name, loaded->site);
  const std::string runs = runs_folder(line, loaded->site.config);
  Result<OpenedSlurmPort> slurm = make_error(ErrorCode::unavailable, "not asked");
  if (loaded->diagnostics.empty() && loaded->site.config.is_slurm()) slurm = ask_walls(loaded->site, installation);
  if (loaded->diagnostics.empty()) check_fit(line, installation, *loaded);
  if (loaded->diagnostics.empty() && loaded->site.config.is_slurm()) {
    const auto asked = check_jobs(slurm, loaded->site, loaded->plan, absolute_path(runs), loaded->diagnostics);
    if (!asked.ok()) return refuse(asked.error());
  }
  if (!loaded->diagnostics.empty()) {
    exit = refuse_input(line, loaded->diagnostics, "nothing was started");
    return std::nullopt;
  }
  for (const std::string& one : loaded->warnings) print(stderr, "warning: {}\n", one);
  if (!chosen.ok()) return refuse(chosen.error());
  if (const auto status = load_own_fault_plan(line); !status.ok()) return refuse(status.error());
  if (const auto status = check_programs(loaded->plan, installation); !status.ok()) return refuse(status.error());
  const FolderAccess access = access_of(loaded->site.values);
  if (const auto made = share_folder(runs, access, false); !made.ok()) return refuse(made.error());
  if (!access.group.empty() || !access.readers.empty())
    if (const auto made = share_folder(join_path(runs, ".artifacts"), access, true); !made.ok())
      return refuse(made.error());
  RunOrigin origin;
  origin.workflow_text = loaded->text;
  origin.workflow_path = loaded->path;
  origin.site_text = to_toml(loaded->site.values);
  if (file_exists(installation.constants_path())) {
    // Layouts are chosen by them; a run that has nothing to choose does not wait for a measurement.
    const auto& stages = loaded->plan.stages;
    const bool chooses =
        std::any_of(stages.begin(), stages.end(), [](const PlannedStage& s) { return s.kind == "tune"; });
    const auto constants = load_plan_constants(installation, loaded->site, loaded->plan, runs, chooses);
    if (!constants.ok()) return refuse(constants.error());
    for (const std::string& one : constants->said) print(stderr, "{}\n", one);
    origin.constants_text = constants->table.to_toml();
    const MeasuredTrainings measured = load_measured(runs, loaded->site.config.name, origin.constants_text);
    for (const std::string& file : measured.set_aside) print(stderr, "set aside: {}\n", file);
    if (!measured.trainings.empty()) origin.measured_text = measured_trainings_text(measured);
  }
  const std::string& artifacts = loaded->site.config.artifacts;
  if (shared) origin.artifact_root = artifacts.empty() ? join_path(runs, ".artifacts") : artifacts;
  origin.programs_dir = installation.programs_dir;
  origin.software = installation.version;
  origin.access = access;
  origin.driver = chosen->name;
  if (loaded->site.config.is_slurm()) origin.environment = own_environment_for_jobs();
  SystemClock clock;
  auto run = create_run(runs, loaded->plan, origin, clock);
  if (!run.ok()) return refuse(run.error());
  print(stderr, "run {}: {} stage{}\n", file_name(*run), loaded->plan.stages.size(),
        loaded->plan.stages.size() == 1 ? "" : "s");
  if (::geteuid() == 0) print(stderr, "warning: you are root, and so is every program of this workflow\n");
  return NewRun{*run, chosen->name, driver_line(*chosen)};
}

namespace {

// Moves a run on that other processes drive: its driver is put to work, and what can be done now is done.
ExitCode hand_to_driver(const CommandLine& line, const ActingRun& run) {
  const std::string& run_dir = run.path;
  DriveSession session(run, line);
  if (const Status driver = session.tend_driver(false); !driver.ok()) {
    print(stderr, "the run is kept; go on with: longhaul resume {}\n", shell_quoted(run_dir));
    return fail(line, driver.error());
  }
  const auto moved = session.move_on(1000 * static_cast<std::int64_t>(line.patience_s));
  if (!moved.ok() && moved.error().code != ErrorCode::conflict) {
    print(stderr, "the run is kept; go on with: longhaul resume {}\n", shell_quoted(run_dir));
    return fail(line, moved.error());
  }
  const auto status = read_run_status(run_dir);
  if (!status.ok()) return fail(line, status.error());
  if (!line.json) {
    print_text(stdout, status_text(*status, session.clock().wall_ms()));
    print_text(stdout, "\n" + watch_text(run_dir));
  }
  const ExitCode exit = is_running(*status) ? ExitCode::ok : exit_of(status->state);
  return with_document(line, run_dir, session.clock(), exit);
}

}  // namespace

ExitCode run_workflow(const CommandLine& line, const Installation& installation) {
  ExitCode exit = ExitCode::ok;
  const auto run = create_checked_run(line, installation, load_workflow(line, installation), "here", true, exit);
  return run ? drive_to_end(line, {run->run_dir, {}}) : exit;
}

std::string newest_run_of(const RunPlan& plan, const std::string& runs_dir) {
  const auto runs = list_own_runs(runs_dir);
  if (!runs.ok()) return {};
  const std::string wanted = to_toml(run_plan_to_value(plan));
  for (auto run = runs->rbegin(); run != runs->rend(); ++run) {
    const auto frozen = read_frozen_run(*run);
    if (!frozen.ok() || frozen->plan.workflow != plan.workflow) continue;
    if (to_toml(run_plan_to_value(frozen->plan)) == wanted) return *run;
  }
  return {};
}

Status ask_to_go_on(const std::string& run_dir) {
  const auto status = read_run_status(run_dir);
  if (!status.ok() || is_running(*status)) return {};
  const auto asked = request(run_dir, "resume", Value::make_table(), SystemClock());
  return asked.ok() ? Status() : Status(asked.error());
}

ExitCode submit_workflow(const CommandLine& line, const Installation& installation) {
  if (!line.site_given)
    return fail(line, make_error(ErrorCode::invalid_input, "nobody said to which site",
                                 "--site NAME, LONGHAUL_SITE or ~/.config/longhaul.toml says it; here: longhaul run " +
                                     shell_quoted(line.workflow)));
  ExitCode exit = ExitCode::ok;
  const auto run = create_checked_run(line, installation, load_workflow(line, installation), line.driver, true, exit);
  if (!run) return exit;
  print(stderr, "{}", run->driver_line);
  if (run->driver == "here") return drive_to_end(line, {run->run_dir, {}});
  return hand_to_driver(line, {run->run_dir, {}});
}

namespace {

// A run goes on with its own copy of the workflow, whatever became of the file.
void warn_of_changed_workflow(const std::string& run_dir, const std::string& path) {
  const auto now = read_file(path, 64 << 20), copy = read_file(join_path(run_dir, "workflow.toml"), 64 << 20);
  if (now.ok() && copy.ok()) print_text(stderr, changed_workflow_text(path, *now, *copy));
}

}  // namespace

ExitCode resume_run(const CommandLine& line, const Installation& installation) {
  auto run = find_asked_run(line, installation);
  if (!run.ok()) return fail(line, run.error());
  SystemClock clock;
  const auto status = read_run_status(run->path);
  if (!status.ok()) return fail(line, status.error());
  if (status->state == RunState::succeeded) return finish(line, run->path, clock);  // nothing is left to do
  warn_of_changed_workflow(run->path, status->workflow_path);
  if (const auto asked = request(run->path, "resume", Value::make_table(), clock); !asked.ok())
    return fail(line, asked.error());
  const auto frozen = read_frozen_header(run->path);
  if (!frozen.ok()) return fail(line, frozen.error());
  return frozen->driver == "here" ? drive_to_end(line, *run) : hand_to_driver(line, *run);
}

namespace {

// By the engine, which ends only what is the caller's own (stop-server).
ExitCode end_servers(const CommandLine& line, const Installation& installation, const RunStatus& status) {
  constexpr std::int64_t deadline_ms = 60'000;  // a server has 45 s to end its answers
  const auto servers = left_servers(status);
  if (servers.empty() && !line.json) print(stdout, "run {} has left no server running\n", status.name);
  ExitCode exit = ExitCode::ok;
  for (const LeftServer& server : servers) {
    const auto ended = run_program(
        {join_path(installation.programs_dir, "longhaul-engine"), "stop-server", "--endpoint", server.endpoint_file},
        deadline_ms);
    const bool well = ended.ok() && ended->status.code == 0 && ended->status.signal == 0;
    if (!well) exit = ExitCode::system;
    if (!line.json) print(stdout, "server of {}: {}\n", server.stage, well ? trim(ended->out) : "not ended");
  }
  return exit;
}

}  // namespace

ExitCode cancel_run(const CommandLine& line, const Installation& installation) {
  auto run = find_asked_run(line, installation);
  if (!run.ok()) return fail(line, run.error());
  auto status = read_run_status(run->path);
  if (!status.ok()) return fail(line, status.error());
  if (line.server) {
    const ExitCode ended = end_servers(line, installation, *status);
    return with_document(line, run->path, SystemClock(), ended);
  }
  if (!is_running(*status)) {
    if (!line.json) print(stdout, "run {} has ended already: {}\n", status->name, to_string(status->state));
    if (!line.json) print_text(stdout, left_servers_text(left_servers(*status), run->path));
    return with_document(line, run->path, SystemClock(), ExitCode::ok);
  }
  DriveSession session(*run, line);
  status = session.cancel();
  if (!status.ok()) return fail(line, status.error());
  if (session.watch().count() > 0) return with_document(line, run->path, session.clock(), ExitCode::interrupted);
  if (is_running(*status))
    return fail(line, make_error(ErrorCode::timeout, "the run has not ended within 2 minutes",
                                 "the request stays; see longhaul status " + shell_quoted(run->path)));
  if (!line.json) print_text(stdout, status_text(*status, session.clock().wall_ms()));
  return with_document(line, run->path, session.clock(), ExitCode::ok);
}

namespace {

// By the lead of a job that ends (worker/lead/next_round.h).
Result<JobRecord> record_on_stdin() {
  constexpr std::uint64_t record_bytes_max = 1 << 20;
  LH_TRY(const std::string text, read_to_end(STDIN_FILENO, "standard input", record_bytes_max));
  return record_from_text(text, "standard input");
}

}  // namespace

ExitCode tick_run(const CommandLine& line, const Installation& installation) {
  auto run = find_asked_run(line, installation);
  if (!run.ok()) return fail(line, run.error());
  DriveSession session(*run, line);
  if (line.for_s > 0) {
    const auto status = session.stay(line.for_s);
    if (!status.ok() && status.error().code == ErrorCode::conflict)
      return with_document(line, run->path, session.clock(), ExitCode::ok);
    if (!status.ok()) return fail(line, status.error());
    if (!line.json) print(stdout, "{}: {}\n", status->name, to_string(status->state));
    const ExitCode exit = is_running(*status) ? ExitCode::ok : exit_of(status->state);
    return with_document(line, run->path, session.clock(), exit);
  }
  if (line.unwritten_record) {
    auto record = record_on_stdin();
    if (!record.ok()) return fail(line, record.error());
    session.take(std::move(record).value());
  }
  const auto outcome = line.until_quiet ? session.move_on(1000 * static_cast<std::int64_t>(line.patience_s))
                                        : tick_once(run->path, session.options(), session.clock(), session.log());
  if (!outcome.ok() && line.until_quiet && outcome.error().code == ErrorCode::conflict)
    return with_document(line, run->path, session.clock(), ExitCode::ok);
  if (!outcome.ok()) return fail(line, outcome.error());
  if (line.json)
    return with_document(line, run->path, session.clock(),
                         outcome->state == RunState::running ? ExitCode::ok : exit_of(outcome->state));
  print(stdout, "{}: {}{}{}\n", file_name(run->path), to_string(outcome->state), outcome->changed ? ", changed" : "",
        outcome->open && !outcome->changed ? ", waits for an answer: --until-quiet waits with it" : "");
  if (line.leave_refused && outcome->open && !session.followed()) return ExitCode::timeout;  // its lead may come again
  return outcome->state == RunState::running ? ExitCode::ok : exit_of(outcome->state);
}

}  // namespace longhaul
