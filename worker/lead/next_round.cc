#include "worker/lead/next_round.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "base/process.h"

namespace longhaul {

NextRound::NextRound(std::vector<std::string> argv, std::string log_path, const std::vector<double>& due_s,
                     const Clock& clock, Logger& log)
    : argv_(std::move(argv)), log_path_(std::move(log_path)), clock_(clock), log_(log) {
  for (const double seconds : due_s)
    due_ns_.push_back(clock_.monotonic_ns() + static_cast<std::int64_t>(seconds * 1e9));
  std::sort(due_ns_.begin(), due_ns_.end());
}

void NextRound::look() {
  if (argv_.empty() || running()) return;
  const bool due = !due_ns_.empty() && clock_.monotonic_ns() >= due_ns_.front();
  if (!due && !asked_) return;
  std::erase_if(due_ns_, [&](std::int64_t then) { return then <= clock_.monotonic_ns(); });
  asked_ = false;
  start();
}

void NextRound::start_last() {
  due_ns_.clear();
  if (argv_.empty()) return;
  end();  // one that began before the record was written may not have seen it
  start();
}

void NextRound::start() {
  SpawnSpec spec;
  spec.argv = argv_;
  spec.environment_removed = {"SLURM_*", "SBATCH_*", "SRUN_*", "PMIX_*", "PMI_*", "OMPI_*"};
  spec.environment_kept = {"SLURM_CONF"};
  spec.own_group = spec.dies_with_starter = true;
  spec.stdout_path = spec.stderr_path = log_path_;
  const auto pid = spawn(spec);
  if (pid.ok())
    pid_ = *pid;
  else
    log_.error("event=round_not_started error='" + pid.error().message() + "'");
}

bool NextRound::running() {
  if (pid_ < 0) return false;
  const auto exit = poll_exit(pid_);
  if (exit.ok() && !exit->has_value()) return true;
  was_killed_ = exit.ok() && (*exit)->signal != 0;
  if (exit.ok())
    log_.info("event=round_ended status='" + (*exit)->text() + "'");
  else
    log_.error("event=round_lost error='" + exit.error().message() + "'");
  pid_ = -1;
  return false;
}

void NextRound::end() {
  if (pid_ > 0) (void)::kill(-pid_, SIGKILL);
  while (running()) ::usleep(1000);
}

}  // namespace longhaul
