#include "worker/protocol/ranks/process_watch.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string_view>

#include "base/text/text.h"

namespace longhaul {
namespace {

ProcessState state_in_stat(std::string_view stat) {
  // The name stands in parentheses and may hold any character, also these.
  const auto name_end = stat.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= stat.size()) return ProcessState::ended;
  switch (stat[name_end + 2]) {
    case 'T': return ProcessState::stopped;
    case 't': return ProcessState::traced;
    case 'D': return ProcessState::blocked;
    case 'Z':
    case 'X':
    case 'x': return ProcessState::ended;
    default: return ProcessState::running;
  }
}

}  // namespace

ProcessState process_state(std::int64_t pid) {
  return ProcessWatch().look(pid);
}

ProcessState ProcessWatch::look(std::int64_t pid) {
  const bool other = pid != pid_;
  const ProcessState state = now(pid);
  alive_ = state != ProcessState::none && state != ProcessState::ended;
  if (!alive_)
    end_.reset();
  else if (other)
    end_.reset(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));  // close-on-exec by itself
  return state;
}

ProcessState ProcessWatch::now(std::int64_t pid) {
  if (pid <= 0) return ProcessState::none;
  if (pid != pid_ || !stat_.valid()) {
    stat_.reset(::open(format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
    pid_ = pid;
    if (!stat_.valid()) return ProcessState::ended;
  }
  char text[1024];  // more than its fields and the name of 15 bytes take
  const ssize_t n = ::pread(stat_.get(), text, sizeof text, 0);
  return n <= 0 ? ProcessState::ended : state_in_stat({text, static_cast<std::size_t>(n)});
}

}  // namespace longhaul
