#pragma once

#include <pthread.h>
#include <signal.h>

namespace longhaul::testing {

// Children of a test that are forked die by a signal as any program does: without the handlers of doctest, that would
// print the report of a test that crashed. Signals wait while the process is copied, so that none meets a handler in
// the child.
class ForkSignals {
 public:
  // Once in a program, before its first thread.
  static void reset_in_children() { (void)pthread_atfork(&block, &restore, &reset); }

 private:
  static constexpr int signals[] = {SIGINT, SIGILL, SIGFPE, SIGSEGV, SIGTERM, SIGABRT};
  static inline thread_local sigset_t before_{};

  static void block() {
    sigset_t all;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  static void restore() { (void)pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  static void reset() {
    struct sigaction now{};
    for (const int number : signals) {
      // What a test set itself, to ignore a signal for one, stays.
      if (sigaction(number, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) (void)signal(number, SIG_DFL);
    }
    restore();
  }
};

}  // namespace longhaul::testing
