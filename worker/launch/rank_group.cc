#include "worker/launch/rank_group.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "base/files/files.h"
#include "base/text/text.h"
#include "resiliency/timeout_hierarchy.h"

namespace longhaul {
namespace {

constexpr std::int64_t cancel_again_ms = 500;  // after a scancel that failed

}  // namespace

Status RankGroup::start(const LaunchSpec& spec) {
  LH_TRY(auto programs, rank_programs(spec));
  for (RankProgram& program : programs) {
    auto pid = spawn(program.spawn);
    if (!pid.ok()) {
      kill_all();
      return program.step.empty() ? pid.error() : pid.error().with_context("step " + program.step);
    }
    Child child;
    child.pid = *pid;
    program.spawn = {};
    child.program = std::move(program);
    children_.push_back(std::move(child));
  }
  return {};
}

void RankGroup::signal(Child& child, int signal_number) {
  // A group outlives its leader, and its id is not used again while it has members: signalling it is safe as long as
  // the leader was not reaped or the group was never seen empty.
  if (child.group && ::kill(-child.pid, signal_number) != 0 && child.ended) child.group = false;
}

// srun kills its tasks when it is asked to end (SIGTERM); other signals it passes on to them.
void RankGroup::ask_to_stop(Child& child) {
  if (child.stop_requested_ns) return;
  child.stop_requested_ns = clock_.monotonic_ns();
  if (child.program.slurm_step_path.empty())
    signal(child, child.program.by_srun ? SIGUSR1 : SIGTERM);
  else if (!child.ended && !report_through_slurm(child))
    signal(child, SIGTERM);  // its tasks have not been started
}

// SIGTERM for the tasks of a step: what servers listen to.
bool RankGroup::report_through_slurm(Child& child) {
  const auto id = read_file(child.program.slurm_step_path);
  if (!id.ok()) return false;
  SpawnSpec scancel;
  scancel.argv = {"scancel", "--signal=TERM", trim(*id)};
  scancel.stdout_path = scancel.stderr_path = launcher_log_path(parent_path(child.program.slurm_step_path));
  scancel.dies_with_starter = true;
  const auto pid = spawn(scancel);
  if (pid.ok()) child.scancel = *pid;
  return pid.ok();
}

// A busy slurmctld may answer late, or not at all: what failed is made again, until the grace is over, and that begins
// with the answer.
void RankGroup::look_at_scancel(Child& child) {
  if (child.scancel > 0) {
    const auto exit = poll_exit(child.scancel);
    if (exit.ok() && !exit->has_value()) return;
    child.scancel = -1;
    if (exit.ok() && (*exit)->success())
      child.stop_requested_ns = clock_.monotonic_ns();
    else if (exit.ok())
      child.ask_again_ns = clock_.monotonic_ns() + cancel_again_ms * 1'000'000;
  }
  if (!child.ask_again_ns || clock_.monotonic_ns() < *child.ask_again_ns) return;
  child.ask_again_ns.reset();
  if (!child.ended && child.pressed == 0) (void)report_through_slurm(child);
}

void RankGroup::stop() {
  for (Child& child : children_) ask_to_stop(child);
}

void RankGroup::note_stop_request() {
  for (Child& child : children_)
    if (!child.stop_requested_ns) child.stop_requested_ns = clock_.monotonic_ns();
}

bool RankGroup::by_mpirun() const {
  return std::any_of(children_.begin(), children_.end(), [](const Child& child) { return child.program.by_mpirun; });
}

std::vector<RankGroup::Process> RankGroup::processes() const {
  std::vector<Process> running;
  for (const Child& child : children_)
    if (!child.ended) running.push_back({child.program.step, child.program.rank, child.pid});
  return running;
}

void RankGroup::kill() {
  for (Child& child : children_) {
    if (!child.stop_requested_ns) child.stop_requested_ns = clock_.monotonic_ns();
    child.pressed = 2;
    signal(child, SIGKILL);
  }
}

void RankGroup::press(Child& child, double grace_s) {
  if (!child.stop_requested_ns) return;
  const bool is_asking = child.scancel > 0 || child.ask_again_ns;
  const double waited_s = static_cast<double>(clock_.monotonic_ns() - *child.stop_requested_ns) * 1e-9 -
                          (is_asking ? scancel_answers_s : 0);
  if (child.pressed == 0 && waited_s > grace_s) {
    child.pressed = 1;
    signal(child, child.program.by_srun ? SIGTERM : SIGKILL);
  }
  if (child.pressed == 1 && child.program.by_srun && waited_s > grace_s + srun_ends_tasks_s) {
    child.pressed = 2;
    signal(child, SIGKILL);
  }
}

void RankGroup::kill_all() {
  for (Child& child : children_) signal(child, SIGKILL);
  for (Child& child : children_) {
    while (!child.ended) {
      const auto exit = poll_exit(child.pid);
      if (!exit.ok() || exit->has_value())
        child.ended = true;
      else
        ::usleep(1000);
    }
  }
  for (Child& child : children_) {
    const pid_t pid = std::exchange(child.scancel, -1);
    if (pid < 0) continue;
    if (const auto exit = poll_exit(pid); !exit.ok() || exit->has_value()) continue;
    ::kill(pid, SIGKILL);
    for (auto exit = poll_exit(pid); exit.ok() && !exit->has_value(); exit = poll_exit(pid)) ::usleep(1000);
  }
}

Result<std::optional<LaunchEnd>> RankGroup::poll(double grace_s) {
  bool running = false, needed = false;
  for (Child& child : children_) {
    if (child.ended) continue;
    LH_TRY(const auto exit, poll_exit(child.pid));
    if (!exit) {
      running = true;
      needed = needed || !child.program.service;
      continue;
    }
    child.ended = true;
    const bool was_asked = child.program.service && child.stop_requested_ns;
    if (!exit->success() && !was_asked && (!first_end_ || first_end_->ok()))
      first_end_ = LaunchEnd{child.program.rank, *exit, child.program.step};
  }
  for (Child& child : children_) look_at_scancel(child);
  if (running) {
    if (!needed || (first_end_ && !first_end_->ok())) stop();
    for (Child& child : children_) press(child, grace_s);
    return std::optional<LaunchEnd>{};
  }
  // What a rank left running in its own group ends with it; who wants to stay (a server left running) has a session of
  // its own.
  for (Child& child : children_) signal(child, SIGKILL);
  return std::optional<LaunchEnd>(first_end_.value_or(LaunchEnd{0, ExitStatus{0, 0}, {}}));
}

}  // namespace longhaul
