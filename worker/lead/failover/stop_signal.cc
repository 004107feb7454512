#include "worker/lead/failover/stop_signal.h"

#include <signal.h>

#include <ctime>
#include <initializer_list>

namespace longhaul {

void block_stop_signals() {
  sigset_t blocked;
  ::sigemptyset(&blocked);
  for (const int s : {SIGTERM, SIGUSR1, SIGCHLD, SIGINT, SIGHUP, SIGPIPE}) ::sigaddset(&blocked, s);
  ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
}

int wait_for_stop_signal(std::int64_t ms) {
  sigset_t waited;
  ::sigemptyset(&waited);
  for (const int s : {SIGTERM, SIGUSR1, SIGCHLD}) ::sigaddset(&waited, s);
  const timespec timeout{ms / 1000, (ms % 1000) * 1'000'000};
  const int signal_number = ::sigtimedwait(&waited, nullptr, &timeout);
  return signal_number == SIGTERM || signal_number == SIGUSR1 ? signal_number : 0;
}

bool stop_signal_pending() {
  sigset_t pending;
  return ::sigpending(&pending) == 0 && ::sigismember(&pending, SIGTERM) == 1;
}

}  // namespace longhaul
