#include "base/process/process_signal.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace longhaul {

TEST_CASE("trust: a process is signalled if it is the one that was meant, and not one that has its number by now") {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  const auto id = identify_process(child);
  REQUIRE(id.ok());
  ProcessId earlier = *id;
  --earlier.start_ticks;
  CHECK(signal_process(earlier, SIGKILL).ok());
  int status = 0;
  CHECK(::waitpid(child, &status, WNOHANG) == 0);
  CHECK(signal_process(*id, SIGTERM).ok());
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WTERMSIG(status) == SIGTERM);
  CHECK(signal_process(*id, SIGTERM).ok());  // it has ended
  CHECK(signal_process({1, 0}, SIGTERM).error().code == ErrorCode::invalid_input);
}

}  // namespace longhaul
