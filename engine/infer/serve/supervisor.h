// Keeps one server process alive. The supervisor owns the listening socket, so clients that connect while a dead server
// is replaced wait in the socket's queue instead of being refused; the server itself is a fork of this small,
// single-threaded process. It is started again when it dies or hangs, a bounded number of times; it never outlives its
// supervisor.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "base/error/result.h"
#include "base/process/log.h"
#include "base/process/process.h"
#include "base/system/clock.h"

namespace longhaul {

// At most `restarts_max` within `window_ms`; each waits twice as long as the one before, up to 5 s.
class RestartBudget {
 public:
  RestartBudget(int restarts_max, std::int64_t window_ms) : restarts_max_(restarts_max), window_ms_(window_ms) {}
  // May it be started again at this time? Counts it if so, and says how long to wait first.
  bool take(std::int64_t now_ms, std::int64_t& wait_ms);

 private:
  int restarts_max_;
  std::int64_t window_ms_;
  std::deque<std::int64_t> taken_ms_;
};

enum class ServerHealth { ok, loading, bad };

struct SupervisorSettings {
  int restarts_max = 5;
  std::int64_t window_ms = 600'000;
  std::int64_t probe_interval_ms = 2'000;
  std::int64_t load_deadline_ms = 600'000;  // from start to the first ok
  int bad_probes_max = 5;                   // in a row, after the first ok: it hangs
  std::int64_t drain_deadline_ms = 30'000;
  std::string status_path;  // "": none. {"server_pid", "supervisor_pid", "restarts"}, replaced at every start
};

// Exit code of a server that cannot work however often it is started (a model that cannot be read).
inline constexpr int exit_do_not_restart = 2;

// Runs until SIGTERM or SIGINT (drains the server, returns 0) or until the server cannot be kept alive (1, or 2 as
// above). To be called before the process has threads; blocks these signals.
struct SupervisedServer {
  std::function<int()> serve;  // runs in the forked child, gives its exit code
  std::function<ServerHealth()> probe;
  std::function<void()> stop_listening;  // asked to end: from now on clients are refused
};
int supervise(const Clock& clock, Logger& log, const SupervisorSettings& settings, const SupervisedServer& server);

// SIGTERM, then SIGKILL at the deadline. True: it ended by itself.
bool end_process(const Clock& clock, const ProcessId& process, std::int64_t deadline_ms);

}  // namespace longhaul
