// The call stacks of another process's threads, by libdw from the unwind tables that every program has (.eh_frame), so
// that neither frame pointers nor debug information are needed. The only file that knows libdw is native_stacks.cc;
// built without it, open() says so.
//
// One thread at a time is interrupted (PTRACE_SEIZE, PTRACE_INTERRUPT), walked, and let go; names of functions are
// looked up afterwards. No signal is sent: a thread that was stopped stays stopped, one that ran runs on, and should
// this process be killed in between, the kernel lets go of all that it had seized. A call in which a thread slept is
// begun again by the kernel, except the few that return EINTR then (signal(7): epoll_wait, sigtimedwait and the like).
//
// The alternative, PTRACE_ATTACH as debuggers use it, stops by a signal, which stays behind when the tracer is killed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/system/clock.h"

namespace longhaul {

struct NativeFrame {
  std::uint64_t address = 0;
  bool called = true;  // `address` is behind the call, as in all frames but the innermost and those of signal handlers
};
struct NativeStack {
  std::vector<NativeFrame> frames;  // innermost first
  std::int64_t stopped_ns = 0;      // how long the thread stood still for this
  std::string problem;              // why the frames end where they do, or why there are none; "" at an outermost one
};

class NativeStacks {
 public:
  // Reads which files the process has mapped, and their unwind tables, before any thread is stopped. unsupported: built
  // without libdw. unavailable: it cannot be read, and why.
  static Result<std::unique_ptr<NativeStacks>> open(pid_t pid, const Deadline& deadline);
  ~NativeStacks();
  NativeStacks(const NativeStacks&) = delete;
  NativeStacks& operator=(const NativeStacks&) = delete;

  NativeStack walk(pid_t tid, const Deadline& deadline);
  // "function+0x1c in /path/to/file (source.cc:12)", as far as it is known.
  std::string name(const NativeFrame& frame);

 private:
  struct Parts;
  explicit NativeStacks(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace longhaul
