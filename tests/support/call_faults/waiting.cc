#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include <array>
#include <cerrno>

#include "tests/support/call_faults/call_plan.h"
#include "tests/support/call_faults/next_function.h"

namespace longhaul::call_faults {
namespace {

// In a process that shares its starter's memory: nothing but system calls.
int sleep_until(void* until) {
  direct_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  direct_call(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, until, nullptr);
  direct_call(SYS_exit, 0);
  return 0;
}

}  // namespace

// A thread that has started a process as vfork(2) does stands in state D until that ends.
void wait_in_state_d(std::int64_t until_ms) {
  timespec until{};
  until.tv_sec = until_ms / 1000;
  until.tv_nsec = until_ms % 1000 * 1'000'000;
  sigset_t every, before;
  sigfillset(&every);
  ::pthread_sigmask(SIG_SETMASK, &every, &before);
  alignas(16) std::array<char, 32768> stack{};
  const int sleeper = ::clone(sleep_until, stack.data() + stack.size(), CLONE_VM | CLONE_VFORK, &until);
  if (sleeper > 0) {
    int status = 0;
    while (direct_call(SYS_wait4, sleeper, &status, __WALL, nullptr) < 0 && errno == EINTR) {
    }
  }
  // Not allowed here, or ended by somebody: the rest of it as an ordinary sleep.
  if (monotonic_ms() < until_ms) direct_call(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace longhaul::call_faults
