#include "engine/infer/serve/supervisor.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {
namespace {

constexpr std::int64_t first_wait_ms = 200, longest_wait_ms = 5'000;

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGCHLD}) sigaddset(&set, signal);
  return set;
}

// The next of the watched signals, or 0 after `ms`.
int wait_signal(const sigset_t& set, std::int64_t ms) {
  const timespec wait{static_cast<time_t>(ms / 1000), static_cast<long>(ms % 1000 * 1'000'000)};
  const int signal = ::sigtimedwait(&set, nullptr, &wait);
  return signal > 0 ? signal : 0;
}

pid_t start_child(const std::function<int()>& serve) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);  // the supervisor ended in between
  ::_exit(serve());
}

void write_status(const SupervisorSettings& settings, Logger& log, pid_t child, int restarts) {
  if (settings.status_path.empty()) return;
  Value status;
  status.set("supervisor_pid", static_cast<long>(::getpid()));
  status.set("server_pid", static_cast<long>(child));
  status.set("restarts", restarts);
  if (const Status s = write_file_atomic(settings.status_path, to_json_pretty(status)); !s.ok())
    log.warn(s.error().message());
}

// How one life of the child ended.
struct Ending {
  bool asked = false;  // a signal asked the supervisor to stop
  ExitStatus status;
};

ExitStatus exit_of(int raw) {
  ExitStatus out;
  if (WIFEXITED(raw)) out.code = WEXITSTATUS(raw);
  if (WIFSIGNALED(raw)) out.signal = WTERMSIG(raw);
  return out;
}

Ending watch(const Clock& clock, Logger& log, const SupervisorSettings& settings, pid_t child,
             const SupervisedServer& server) {
  const sigset_t set = watched_signals();
  const Deadline loaded(clock, settings.load_deadline_ms);
  bool was_ok = false, asked = false;
  int bad = 0;
  std::int64_t kill_at_ns = 0;
  std::int64_t next_probe_ns = clock.monotonic_ns() + settings.probe_interval_ms * 1'000'000;
  while (true) {
    const int signal = wait_signal(set, std::min<std::int64_t>(200, settings.probe_interval_ms));
    int raw = 0;
    if (::waitpid(child, &raw, WNOHANG) == child) return {asked, exit_of(raw)};
    const std::int64_t now = clock.monotonic_ns();
    if ((signal == SIGTERM || signal == SIGINT) && !asked) {
      log.info("event=stopping");
      asked = true;
      server.stop_listening();
      ::kill(child, SIGTERM);
      kill_at_ns = now + (settings.drain_deadline_ms + 5'000) * 1'000'000;
    }
    if (kill_at_ns != 0 && now >= kill_at_ns) ::kill(child, SIGKILL);
    if (asked || now < next_probe_ns) continue;
    const ServerHealth health = server.probe();
    next_probe_ns = clock.monotonic_ns() + settings.probe_interval_ms * 1'000'000;
    was_ok = was_ok || health == ServerHealth::ok;
    bad = health == ServerHealth::bad ? bad + 1 : 0;
    if ((was_ok && bad >= settings.bad_probes_max) || (!was_ok && loaded.passed())) {
      log.error(format("event=server_hangs bad_probes={} loaded={} next=kill", bad, was_ok));
      ::kill(child, SIGKILL);
      bad = 0;
    }
  }
}

}  // namespace

bool RestartBudget::take(std::int64_t now_ms, std::int64_t& wait_ms) {
  while (!taken_ms_.empty() && now_ms - taken_ms_.front() >= window_ms_) taken_ms_.pop_front();
  if (static_cast<int>(taken_ms_.size()) >= restarts_max_) return false;
  wait_ms = std::min(longest_wait_ms, first_wait_ms << std::min<std::size_t>(taken_ms_.size(), 10));
  taken_ms_.push_back(now_ms);
  return true;
}

int supervise(const Clock& clock, Logger& log, const SupervisorSettings& settings, const SupervisedServer& server) {
  const sigset_t set = watched_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);  // the child inherits it and waits for its signals itself
  RestartBudget budget(settings.restarts_max, settings.window_ms);
  for (int restarts = 0;; ++restarts) {
    const pid_t child = start_child(server.serve);
    if (child < 0) {
      log.error(errno_error(ErrorCode::io, "fork", errno).message());
      return 1;
    }
    write_status(settings, log, child, restarts);
    log.info(format("event=server_started server_pid={} restarts={}", child, restarts));
    const Ending ending = watch(clock, log, settings, child, server);
    if (ending.asked) {
      log.info(format("event=server_stopped how=\"{}\"", ending.status.text()));
      return 0;
    }
    if (ending.status.code == exit_do_not_restart) {
      log.error("event=server_cannot_work next=give_up");
      return exit_do_not_restart;
    }
    std::int64_t wait_ms = 0;
    if (!budget.take(clock.monotonic_ns() / 1'000'000, wait_ms)) {
      log.error(format("event=server_died how=\"{}\" next=give_up restarts={}", ending.status.text(), restarts));
      return 1;
    }
    log.warn(format("event=server_died how=\"{}\" next=restart wait_ms={}", ending.status.text(), wait_ms));
    const Deadline waited(clock, wait_ms);
    while (!waited.passed()) {
      const int signal = wait_signal(set, waited.left_ms() + 1);
      if (signal == SIGTERM || signal == SIGINT) return 0;
    }
  }
}

bool end_process(const Clock& clock, const ProcessId& process, std::int64_t deadline_ms) {
  ::kill(process.pid, SIGTERM);
  const Deadline deadline(clock, deadline_ms);
  while (process_alive(process)) {
    if (deadline.passed()) {
      ::kill(process.pid, SIGKILL);
      return false;
    }
    ::usleep(50'000);
  }
  return true;
}

}  // namespace longhaul
