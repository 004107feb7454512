#include "worker/lead/agents/agent_step.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/process/process.h"
#include "base/text/text.h"
#include "worker/launch/agent_launcher.h"

namespace longhaul {
namespace {

constexpr std::int64_t pause_ms = 1'000, pause_max_ms = 60'000;
constexpr int own_end_polls_max = 100;  // of 10 ms each, in which agents that were asked to end do so; then SIGTERM
constexpr int end_polls_max = 400;      // then SIGKILL

constexpr std::int64_t on_their_way_ms = 20'000;
// Without an agent after so long a step with GPUs waits for them: first agents of large jobs are there within seconds.
constexpr std::int64_t waits_for_gpus_ms = 20'000, killed_after_ms = 3'000;

}  // namespace

AgentStep::AgentStep(std::vector<std::string> argv, std::string log_path, const Clock& clock, Logger& log)
    : argv_(std::move(argv)),
      without_gpus_(launcher_without_gpus(argv_)),
      log_path_(std::move(log_path)),
      clock_(clock),
      log_(log) {}

void AgentStep::leave_gpus(const std::string& why) {
  log_.warn(format("event=agents_without_gpus why='{}' next=start_without_gpus log={}", why, log_path_));
  argv_ = std::exchange(without_gpus_, {});
  asks_for_gpus_ = false;
  next_start_ns_ = 0;
}

bool AgentStep::may_bring_one_lost_at(std::int64_t lost_ns) const {
  return lost_ns < started_ns_ && clock_.monotonic_ns() - started_ns_ < on_their_way_ms * 1'000'000;
}

Status AgentStep::start() {
  SpawnSpec spec;
  spec.argv = argv_;
  spec.stdout_path = spec.stderr_path = log_path_;
  spec.own_group = true;
  // The agents look for another lead when this one dies.
  ++starts_;
  came_ = asked_to_end_ = false;
  started_ns_ = clock_.monotonic_ns();
  // Twice as long between two starts as before: a site that refuses the step is not asked for it all day.
  const std::int64_t pause = std::min(pause_max_ms, pause_ms << std::min(starts_, 10));
  next_start_ns_ = clock_.monotonic_ns() + pause * 1'000'000;
  LH_TRY(pid_, spawn(spec));
  return {};
}

void AgentStep::look(bool needed) {
  came_ = came_ || !needed;
  if (pid_ > 0) {
    const auto exit = poll_exit(pid_);
    if (exit.ok() && !exit->has_value()) return end_if_it_waits();
    pid_ = -1;
    const std::string status = exit.ok() ? (*exit)->text() : exit.error().message();
    log_.warn(format("event=agents_ended status='{}' next=start_again log={}", status, log_path_));
    const bool well = exit.ok() && (*exit)->success() && !asked_to_end_;
    if (!without_gpus_.empty() && !came_ && !well) leave_gpus(status);
  }
  if (!needed || clock_.monotonic_ns() < next_start_ns_) return;
  if (const Status started = start(); !started.ok())
    log_.warn("event=agents_not_started error='" + started.error().message() + "' next=try_again");
}

// srun without an agent: Slurm holds the step back for what it asks for.
void AgentStep::end_if_it_waits() {
  if (without_gpus_.empty() || came_) return;
  const std::int64_t waited_ms = (clock_.monotonic_ns() - started_ns_) / 1'000'000;
  if (waited_ms > waits_for_gpus_ms && !std::exchange(asked_to_end_, true)) ::kill(-pid_, SIGTERM);
  if (waited_ms > waits_for_gpus_ms + killed_after_ms) ::kill(-pid_, SIGKILL);
}

void end_step(pid_t pid) {
  for (int polls = 0;; ++polls) {
    const auto exit = poll_exit(pid);
    if (!exit.ok() || exit->has_value()) return;
    if (polls == own_end_polls_max) ::kill(-pid, SIGTERM);
    if (polls == end_polls_max) ::kill(-pid, SIGKILL);
    ::usleep(10'000);
  }
}

void AgentStep::end() {
  if (pid_ > 0) end_step(pid_);
  pid_ = -1;
}

}  // namespace longhaul
