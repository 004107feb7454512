#include "base/system/private_memory.h"

#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace longhaul {

TEST_CASE("trust: a process that keeps secrets leaves no core file, and its children are free to") {
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    rlimit before{}, after{};
    ::getrlimit(RLIMIT_CORE, &before);
    keep_memory_private();
    ::getrlimit(RLIMIT_CORE, &after);
    if (::prctl(PR_GET_DUMPABLE) != 0 || before.rlim_cur != after.rlim_cur) ::_exit(1);
    std::signal(SIGABRT, SIG_DFL);
    ::raise(SIGABRT);
    ::_exit(2);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
  CHECK_FALSE(WCOREDUMP(status));
}

}  // namespace longhaul
