#include "worker/lead/agent_step.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "base/process.h"
#include "base/text.h"

namespace longhaul {
namespace {

constexpr std::int64_t pause_ms = 1'000, pause_max_ms = 60'000;
constexpr int own_end_polls_max = 100;  // of 10 ms each, in which agents that were told so end; then SIGTERM
constexpr int end_polls_max = 400;      // then SIGKILL

constexpr std::int64_t on_their_way_ms = 20'000;

}  // namespace

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
  started_ns_ = clock_.monotonic_ns();
  // Twice as long between two starts as before: a site that refuses the step is not asked for it all day.
  const std::int64_t pause = std::min(pause_max_ms, pause_ms << std::min(starts_, 10));
  next_start_ns_ = clock_.monotonic_ns() + pause * 1'000'000;
  LH_TRY(pid_, spawn(spec));
  return {};
}

void AgentStep::look(bool needed) {
  if (pid_ > 0) {
    const auto exit = poll_exit(pid_);
    if (exit.ok() && !exit->has_value()) return;
    pid_ = -1;
    log_.warn(format("event=agents_ended status='{}' next=start_again log={}",
                     exit.ok() ? (*exit)->text() : exit.error().message(), log_path_));
  }
  if (!needed || clock_.monotonic_ns() < next_start_ns_) return;
  if (const Status started = start(); !started.ok())
    log_.warn("event=agents_not_started error='" + started.error().message() + "' next=try_again");
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
