// longhaul-worker: what runs inside a job. Started by schedulers and launchers, hardly ever by hand.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/process.h"
#include "base/text.h"
#include "worker/agent/agent.h"
#include "worker/launch/rank_exec.h"
#include "worker/lead/by_hand.h"
#include "worker/lead/lead.h"
#include "worker/protocol/lead_address.h"
#include "worker/stacks/stack_text.h"

namespace {

constexpr const char* usage =
    "usage: longhaul-worker lead --attempt DIR             leads one job: claims it, starts its ranks, writes its "
    "record\n"
    "       longhaul-worker lead --by-hand DIR             does the same work once more, beside the run: job scripts\n"
    "       longhaul-worker agent --attempt DIR            watches the ranks of one node for the lead of that attempt\n"
    "       longhaul-worker rank --log-dir DIR --beat-dir DIR -- PROGRAM\n"
    "                                                      becomes one rank below mpirun or srun, with a log file and "
    "a\n"
    "                                                      heartbeat page of its own\n"
    "       longhaul-worker stacks --pid PID [--title TEXT] [--deadline-ms N] [--output FILE]\n"
    "                                                      what the threads of a process and its children are doing\n";

std::string launcher_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* value = std::getenv(name)) return value;
  return {};
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Of one of several programs in a job.
std::string slurm_step() {
  const std::string job = variable("SLURM_JOB_ID"), step = variable("SLURM_STEP_ID");
  return variable("LONGHAUL_STEP").empty() || job.empty() || step.empty() ? "" : job + "." + step;
}

longhaul::JobSurroundings surroundings() {
  longhaul::JobSurroundings job;
  const std::string array = variable("SLURM_ARRAY_JOB_ID");
  job.scheduler_job = array.empty() ? variable("SLURM_JOB_ID") : array + "_" + variable("SLURM_ARRAY_TASK_ID");
  job.restarts = std::atoi(variable("SLURM_RESTART_COUNT").c_str());
  job.nodes = variable("SLURM_JOB_NODELIST");
  return job;
}

// 0: the work ended well, or somebody leads it already; 1 otherwise, so that the scheduler calls the job failed, too.
int lead(std::string attempt_dir, bool by_hand) {
  using namespace longhaul;
  SystemClock clock;
  Logger log("lead", "attempt=" + attempt_dir);
  const JobSurroundings job = surroundings();
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
  if (end.ok()) return *end == LeadEnd::recorded_failure ? 1 : 0;
  log.error("event=lead_failed error='" + end.error().message() + "'");
  return 1;
}

std::atomic<bool> stop_asked{false};  // the one thing that a signal handler may touch
void on_stop_signal(int) {
  stop_asked.store(true, std::memory_order_relaxed);
}

int agent(const std::string& attempt_dir) {
  using namespace longhaul;
  for (const int signal_number : {SIGTERM, SIGINT}) std::signal(signal_number, on_stop_signal);
  std::signal(SIGPIPE, SIG_IGN);
  SystemClock clock;
  const std::string node = variable("SLURMD_NODENAME"), folder = absolute_path(attempt_dir);
  AgentOptions options;
  options.host = node.empty() ? host_name() : node;
  options.address_path = lead_address_path(folder, surroundings().restarts);
  options.secret_path = lead_secret_path(folder, surroundings().restarts);
  options.worker_program = own_program_path();
  Logger log("agent", "host=" + options.host);
  const Status ended = run_agent(options, clock, stop_asked, log);
  if (ended.ok()) return 0;
  log.error("event=agent_failed error='" + ended.error().message() + "'");
  return 1;
}

int stacks(const std::vector<std::string>& words) {
  using namespace longhaul;
  StackQuestion question;
  std::string output;
  for (std::size_t i = 1; i + 1 < words.size(); i += 2) {
    const std::string& value = words[i + 1];
    if (words[i] == "--pid") question.pid = static_cast<pid_t>(std::atoi(value.c_str()));
    if (words[i] == "--title") question.title = value;
    if (words[i] == "--deadline-ms") question.deadline_ms = std::atoll(value.c_str());
    if (words[i] == "--output") output = value;
  }
  if (question.pid <= 0 || words.size() % 2 == 0) {
    std::fputs(usage, stderr);
    return 2;
  }
  if (question.title.empty()) question.title = "stacks on " + host_name();
  SystemClock clock;
  const std::string text = stack_text(question, clock);
  if (output.empty()) return std::fputs(text.c_str(), stdout) < 0 ? 1 : 0;
  const Status written = write_file_renamed(output, text);
  if (written.ok()) return 0;
  std::fprintf(stderr, "longhaul-worker: %s\n", written.error().message().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 3 && words[0] == "lead" && words[1] == "--attempt") return lead(words[2], false);
  if (words.size() == 3 && words[0] == "lead" && words[1] == "--by-hand") return lead(words[2], true);
  if (words.size() == 3 && words[0] == "agent" && words[1] == "--attempt") return agent(words[2]);
  if (!words.empty() && words[0] == "stacks") return stacks(words);
  if (words.size() >= 7 && words[0] == "rank" && words[1] == "--log-dir" && words[3] == "--beat-dir" &&
      words[5] == "--") {
    const auto failed =
        longhaul::exec_rank(words[2], words[4], launcher_rank(), slurm_step(), {words.begin() + 6, words.end()});
    std::fprintf(stderr, "longhaul-worker: %s\n", failed.error().message().c_str());
    return 127;
  }
  std::fputs(usage, stderr);
  return 2;
}
