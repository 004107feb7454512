// SIGKILL that takes its time: until it arrives the process is stopped, computes nothing and says nothing, but is
// there.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdarg>

#include "tests/support/call_faults/call_plan.h"
#include "tests/support/call_faults/next_function.h"

namespace longhaul::call_faults {
namespace {

std::string program_of(pid_t pid) {
  const std::string link = "/proc/" + std::to_string(pid) + "/exe";
  std::array<char, PATH_MAX> path{};
  const long n = direct_call(SYS_readlinkat, AT_FDCWD, link.c_str(), path.data(), path.size());
  return n > 0 ? std::string(path.data(), static_cast<std::size_t>(n)) : std::string();
}

// Forks without what the C library does then, and leaves nobody's child behind. In the child: true.
bool in_a_process_apart() {
  const long child = direct_call(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr);
  if (child != 0) {
    int status = 0;
    if (child > 0) direct_call(SYS_wait4, child, &status, __WALL, nullptr);
    return false;
  }
  if (direct_call(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr) != 0) direct_call(SYS_exit_group, 0);
  return true;
}

// Whether the signal is on its way, later.
bool sent_later(pid_t pid, int number) {
  if (number != SIGKILL || pid <= 0 || current_plan() == nullptr) return false;
  const std::string program = program_of(pid);
  const Rule* rule = acting_rule(Call::kill, program, Rule::Action::delay);
  if (rule == nullptr) return false;
  const long target = direct_call(SYS_pidfd_open, pid, 0);
  if (target < 0) return false;
  log_line(Call::kill, rule->word, program + " " + std::to_string(pid));
  // Who kills itself is stopped last: nobody else would see to its end.
  const bool itself = pid == direct_call(SYS_getpid);
  if (!itself) direct_call(SYS_kill, pid, SIGSTOP);
  if (in_a_process_apart()) {
    direct_call(SYS_setsid);
    direct_call(SYS_dup3, target, 0, 0);
    direct_call(SYS_close_range, 1U, ~0U, 0);
    pollfd ended{0, POLLIN, 0};
    timespec wait{};
    wait.tv_sec = rule->number / 1000;
    wait.tv_nsec = rule->number % 1000 * 1'000'000;
    direct_call(SYS_ppoll, &ended, 1, &wait, nullptr, 0);
    direct_call(SYS_pidfd_send_signal, 0, SIGKILL, nullptr, 0);
    direct_call(SYS_exit_group, 0);
  }
  direct_call(SYS_close, target);
  if (itself) direct_call(SYS_kill, pid, SIGSTOP);
  return true;
}

// Of a descriptor that stands for a process.
pid_t pid_of(int descriptor) {
  const std::string info = file_text("/proc/self/fdinfo/" + std::to_string(descriptor));
  const auto at = info.find("\nPid:");
  return at == std::string::npos ? 0 : std::atoi(info.c_str() + at + 5);
}

}  // namespace

extern "C" {
int our_kill(pid_t pid, int number) LH_IN_PLACE_OF(kill);
int our_kill(pid_t pid, int number) {
  static auto* const next = next_function<int(pid_t, int)>("kill");
  return sent_later(pid, number) ? 0 : next(pid, number);
}

long our_syscall(long number, ...) LH_IN_PLACE_OF(syscall);
long our_syscall(long number, ...) {
  va_list more;
  va_start(more, number);
  std::array<long, 6> words{};
  for (long& word : words) word = va_arg(more, long);
  va_end(more);
  if (number == SYS_pidfd_send_signal && sent_later(pid_of(static_cast<int>(words[0])), static_cast<int>(words[1])))
    return 0;
  return direct_call(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
}

}  // namespace longhaul::call_faults
