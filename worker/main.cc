// longhaul-worker: what runs inside a job. Started by schedulers and launchers, hardly ever by hand.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/files/owned_files.h"
#include "base/options/command_options.h"
#include "base/process/log.h"
#include "base/process/process.h"
#include "base/system/clock.h"
#include "base/system/private_memory.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/records/attempt.h"
#include "contracts/records/doctor.h"
#include "contracts/settings/job/mpi_place.h"
#include "contracts/tasks/task.h"
#include "worker/agent/agent.h"
#include "worker/agent/health_command.h"
#include "worker/doctor/job_look.h"
#include "worker/launch/rank_arguments.h"
#include "worker/launch/rank_exec.h"
#include "worker/lead/by_hand.h"
#include "worker/lead/failover/lead_holder.h"
#include "worker/lead/lead.h"
#include "worker/protocol/node/job_pids.h"
#include "worker/protocol/wire/lead_address.h"
#include "worker/stacks/stack_text.h"

namespace {

constexpr const char* usage =
    "usage: longhaul-worker COMMAND [options]      (COMMAND --help lists them)\n\n"
    "  lead          leads one job: claims it, starts its ranks, writes its record\n"
    "  agent         watches the ranks of one node for the lead of an attempt\n"
    "  health        looks at this host: GPUs, network, disks, memory; exit code 1: it is not fit to work\n"
    "  doctor        looks at the job that it is in, for `longhaul doctor --job`\n"
    "  stacks        what the threads of a process and its children are doing\n"
    "  rank --log-dir DIR --beat-dir DIR [--near-gpu] -- PROGRAM\n"
    "                becomes one rank below mpirun or srun, with a log file and a heartbeat page of its own\n";

using Arguments = std::vector<std::string>;

// What the command ends with if its arguments are refused, or help was asked for; nullopt: it goes on.
std::optional<int> parsed(longhaul::CommandOptions& options, const Arguments& arguments) {
  const auto helped = options.parse(arguments);
  if (helped.ok()) return *helped ? std::optional(0) : std::nullopt;
  longhaul::print(stderr, "longhaul-worker: {}\n", helped.error().message());
  return 2;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

longhaul::AllocationInfo allocation_of_job() {
  longhaul::AllocationInfo job;
  const std::string array = variable("SLURM_ARRAY_JOB_ID");
  job.scheduler_job = array.empty() ? variable("SLURM_JOB_ID") : array + "_" + variable("SLURM_ARRAY_TASK_ID");
  job.restarts = std::atoi(variable("SLURM_RESTART_COUNT").c_str());
  job.nodes = variable("SLURM_JOB_NODELIST");
  job.node = variable("SLURMD_NODENAME");
  job.step_maker = variable("SLURM_STEPMGR");
  job.mpirun =
      longhaul::find_mpi(longhaul::parent_path(longhaul::own_program_path()), variable("LD_LIBRARY_PATH")).mpirun;
  return job;
}

// 0: the work ended well, or somebody leads it already; 1 otherwise, so that the scheduler calls the job failed, too.
int lead(std::string attempt_dir, bool by_hand) {
  using namespace longhaul;
  SystemClock clock;
  Logger log("lead", "attempt=" + attempt_dir);
  if (::geteuid() == 0)
    log.warn(
        "event=runs_as_root what='every file of the run and every program of the workflow is root\'s; mpirun is given "
        "that this is meant (OMPI_ALLOW_RUN_AS_ROOT)'");
  const AllocationInfo job = allocation_of_job();
  attempt_dir = absolute_path(attempt_dir);
  if (by_hand) {
    auto made = make_attempt_by_hand(attempt_dir, job, clock);
    if (!made.ok()) {
      log.error("event=lead_failed error='" + made.error().message() + "'");
      return 1;
    }
    attempt_dir = *made;
    log.info("event=started_by_hand attempt=" + attempt_dir);
  }
  const auto end = run_lead(attempt_dir, own_program_path(), job, clock, log);
  if (end.ok() && *end == LeadEnd::superseded) return lead_superseded_exit;
  if (end.ok()) return *end == LeadEnd::recorded_failure ? 1 : 0;
  log.error("event=lead_failed error='" + end.error().message() + "'");
  return 1;
}

// What a step of the job has in its environment would change the steps that a lead starts from it.
void forget_step() {
  const std::set<std::string> kept = {
      "SLURM_JOB_ID",       "SLURM_JOBID",     "SLURM_CONF",         "SLURM_JOB_NODELIST",  "SLURM_RESTART_COUNT",
      "SLURM_ARRAY_JOB_ID", "SLURMD_NODENAME", "SLURM_CLUSTER_NAME", "SLURM_ARRAY_TASK_ID", "SLURM_STEPMGR"};
  std::vector<std::string> gone;
  for (char** entry = environ; *entry; ++entry) {
    const std::string name = std::string(*entry).substr(0, std::string(*entry).find('='));
    const bool of_step = longhaul::starts_with(name, "SLURM_") || longhaul::starts_with(name, "PMIX_") ||
                         longhaul::starts_with(name, "OMPI_");
    if (of_step && !kept.count(name)) gone.push_back(name);
  }
  for (const std::string& name : gone) ::unsetenv(name.c_str());
}

int stand_in(const std::string& attempt_dir, const std::string& state_path) {
  using namespace longhaul;
  forget_step();
  SystemClock clock;
  Logger log("lead", "attempt=" + attempt_dir);
  FileDescriptor listener(::fcntl(0, F_DUPFD_CLOEXEC, 3));  // what we start does not listen
  const FileDescriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (nothing.valid()) (void)::dup2(nothing.get(), 0);
  const auto end = take_over(absolute_path(attempt_dir), own_program_path(), allocation_of_job(), state_path,
                             std::move(listener), clock, log);
  if (end.ok()) return *end == LeadEnd::recorded ? 0 : 1;
  log.error("event=no_takeover error='" + end.error().message() + "'");
  return end.error().code == ErrorCode::unavailable ? 3 : 1;
}

std::atomic<bool> stop_asked{false};  // the one thing that a signal handler may touch
void on_stop_signal(int) {
  stop_asked.store(true, std::memory_order_relaxed);
}

// The script's process lives as long as the job's work is led, by whomever: Slurm ends a job with its script.
int held_lead(const std::string& attempt_dir) {
  using namespace longhaul;
  const std::string folder = absolute_path(attempt_dir);
  const auto attempt = read_attempt(join_path(folder, "attempt.toml"));
  if (!attempt.ok() || attempt->agent_launcher.empty()) return lead(attempt_dir, false);
  SystemClock clock;
  Logger log("holder", "attempt=" + folder);
  const auto end =
      hold_lead({own_program_path(), "lead", "--attempt", folder, "--held"}, *attempt, allocation_of_job(), clock, log);
  if (end.ok()) return *end;
  log.error("event=lead_failed error='" + end.error().message() + "'");
  return 1;
}

int lead_as_asked(const Arguments& arguments) {
  using namespace longhaul;
  std::string attempt, by_hand, state_path;
  bool held = false;
  CommandOptions options("longhaul-worker lead", "leads one job: claims it, starts its ranks, writes its record");
  options.text("--attempt", "DIR", attempt, "the attempt's folder");
  options.text("--by-hand", "DIR", by_hand, "instead: does the same work once more, beside the run; for job scripts");
  options.flag("--held", held, "with --attempt: below a holder, as the job's script starts it");
  options.text("--take-over", "FILE", state_path, "with --attempt: from this copy of another lead's state");
  if (const auto ended = parsed(options, arguments)) return *ended;
  if (attempt.empty() == by_hand.empty() || (attempt.empty() && (held || !state_path.empty())) ||
      (held && !state_path.empty())) {
    print(stderr, "longhaul-worker: lead: --attempt DIR, with --held or --take-over FILE, or --by-hand DIR\n");
    return 2;
  }
  if (!by_hand.empty()) return lead(by_hand, true);
  if (!state_path.empty()) return stand_in(attempt, state_path);
  return held ? lead(attempt, false) : held_lead(attempt);
}

int agent(const Arguments& arguments) {
  using namespace longhaul;
  std::string attempt_dir;
  CommandOptions command("longhaul-worker agent", "watches the ranks of one node for the lead of an attempt");
  command.text("--attempt", "DIR", attempt_dir, "the attempt's folder").required();
  if (const auto ended = parsed(command, arguments)) return *ended;
  for (const int signal_number : {SIGTERM, SIGINT}) std::signal(signal_number, on_stop_signal);
  std::signal(SIGPIPE, SIG_IGN);
  SystemClock clock;
  const std::string node = variable("SLURMD_NODENAME"), folder = absolute_path(attempt_dir);
  AgentOptions options;
  options.host = node.empty() ? host_name() : node;
  options.worker_program = own_program_path();
  options.attempt_dir = folder;
  options.address_path = lead_address_path(folder, allocation_of_job().restarts);
  options.secret_path = lead_secret_path(folder, allocation_of_job().restarts);
  // Without its attempt an agent does its main work all the same.
  if (const auto attempt = read_attempt(join_path(folder, "attempt.toml")); attempt.ok()) {
    options.attempt_key = attempt->key;
    const auto task = read_task(attempt->task_path);
    Attempt seen_here = *attempt;  // a step that Slurm gives fewer GPUs than its job has lacks none
    if (const int given = std::atoi(variable("SLURM_GPUS_ON_NODE").c_str()); given > 0)
      seen_here.gpus_per_node = std::min(seen_here.gpus_per_node, given);
    options.health = health_watch_options(seen_here, task.ok() ? task->settings : Value(), options.worker_program);
  }
  // A file of its own, also for the lead that it may start: the pipe to srun ends with the node that srun is on.
  const std::string log_path = agent_log_path(folder, options.host);
  if (const auto file = open_to_append(log_path); file.ok()) (void)::dup2(file->get(), 1), (void)::dup2(file->get(), 2);
  Logger log("agent", "host=" + options.host);
  const Status ended = run_agent(options, clock, stop_asked, log);
  if (ended.ok()) return 0;
  log.error("event=agent_failed error='" + ended.error().message() + "'");
  return 1;
}

std::vector<std::pair<std::string, std::string>> environment() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (char** entry = environ; entry && *entry; ++entry)
    if (const char* equals = std::strchr(*entry, '='))
      variables.emplace_back(std::string(*entry, static_cast<std::size_t>(equals - *entry)), equals + 1);
  return variables;
}

int health(const std::vector<std::string>& arguments) {
  using namespace longhaul;
  auto command = parse_health_command(arguments, environment());
  if (!command.ok()) {
    print(stderr, "longhaul-worker: {}\n", command.error().message());
    return 2;
  }
  if (command->help) return 0;
  if (command->watch_s > 0) {
    SystemClock clock;
    JobPidsReader job_pids(STDIN_FILENO);
    if (command->job_pids) command->options.job_pids = [&job_pids] { return job_pids.newest(); };
    watch_health(*command, clock,
                 [](const std::string& line) { return print_text(stdout, line) && std::fflush(stdout) == 0; });
    return 0;
  }
  HostHealth host(command->options);
  const HealthFindings findings = host.look();
  const std::string text = command->json ? to_json_pretty(health_value(findings, host_name(), host.gpus()))
                                         : health_text(findings, host_name(), host.gpus());
  print_text(stdout, text);
  return fit_to_work(findings) ? 0 : 1;
}

int stacks(const std::vector<std::string>& arguments) {
  using namespace longhaul;
  StackRequest question;
  std::string output;
  int pid = 0;
  CommandOptions options("longhaul-worker stacks", "what the threads of a process and its children are doing");
  options.integer("--pid", pid, 1, 1 << 30, "of the process").required();
  options.text("--title", "TEXT", question.title, "of the text");
  options.integer("--deadline-ms", question.deadline_ms, 1, std::int64_t{1} << 40, "for all of it");
  options.text("--output", "FILE", output, "instead of stdout");
  if (const auto ended = parsed(options, arguments)) return *ended;
  question.pid = pid;
  if (question.title.empty()) question.title = "stacks on " + host_name();
  SystemClock clock;
  const std::string text = stack_text(question, clock);
  if (output.empty()) return print_text(stdout, text) ? 0 : 1;
  const Status written = write_file_renamed(output, text);
  if (written.ok()) return 0;
  print(stderr, "longhaul-worker: {}\n", written.error().message());
  return 1;
}

int doctor(const Arguments& arguments) {
  using namespace longhaul;
  std::string order_path, role;
  CommandOptions options("longhaul-worker doctor", "looks at the job that it is in, for `longhaul doctor --job`");
  options.text("--order", "FILE", order_path, "what to look at").required();
  options.text("--as", "ROLE", role, "one process of its steps");
  if (const auto ended = parsed(options, arguments)) return *ended;
  for (const int signal_number : {SIGTERM, SIGINT}) std::signal(signal_number, on_stop_signal);
  SystemClock clock;
  const auto order = read_doctor_order(order_path);
  if (!order.ok()) {
    print(stderr, "longhaul-worker: {}\n", order.error().message());
    return 1;
  }
  Logger log("doctor", "folder=" + order->folder);
  const Status done = !role.empty() ? look_as(role, *order, variable, clock)
                                    : look_at_job(*order, own_program_path(), variable, stop_asked, clock, log);
  if (done.ok()) return 0;
  print(stderr, "longhaul-worker: {}\n", done.error().message());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments all(argv + 1, argv + argc);
  const std::string command = all.empty() ? "" : all.front();
  const Arguments arguments(all.begin() + (all.empty() ? 0 : 1), all.end());
  // Lead, standby and agent hold the job's secret; ranks and what else they start are programs of their own.
  if (command == "lead" || command == "agent") longhaul::keep_memory_private();
  if (command == "lead") return lead_as_asked(arguments);
  if (command == "agent") return agent(arguments);
  if (command == "doctor") return doctor(arguments);
  if (command == "health") return health(arguments);
  if (command == "stacks") return stacks(arguments);
  if (const auto rank = longhaul::parse_rank_arguments(all)) {
    const auto failed = longhaul::exec_rank(*rank, variable);
    longhaul::print(stderr, "longhaul-worker: {}\n", failed.error().message());
    return 127;
  }
  const bool helped = command == "--help" || command == "help";
  longhaul::print_text(helped ? stdout : stderr, usage);
  return helped ? 0 : 2;
}
