#include "worker/protocol/ranks/own_process.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr int generations_max = 64;
constexpr std::uint64_t environment_bytes_max = 1 << 22;

pid_t parent_of(pid_t pid) {
  const auto stat = read_file(format("/proc/{}/stat", pid));
  const auto name_end = stat.ok() ? stat->rfind(") ") : std::string::npos;
  return name_end == std::string::npos || name_end + 4 >= stat->size() ? 0 : std::atoi(stat->c_str() + name_end + 4);
}

bool started_below_us(pid_t pid) {
  const pid_t self = ::getpid();
  for (int i = 0; i < generations_max && pid > 1; ++i) {
    pid = parent_of(pid);
    if (pid == self) return true;
  }
  return false;
}

std::vector<std::string> entries_of(pid_t pid, const char* file) {
  const auto text = read_file(format("/proc/{}/{}", pid, file), environment_bytes_max);
  return text.ok() ? split(*text, '\0') : std::vector<std::string>();
}

bool carries(pid_t pid, const JobMarks& marks) {
  const std::string key = "LONGHAUL_ATTEMPT_KEY=" + marks.attempt_key;
  const std::string page = "LONGHAUL_BEAT=" + marks.beat_folder + "/";
  for (const std::string& entry : entries_of(pid, "environ"))
    if ((!marks.attempt_key.empty() && entry == key) || (!marks.beat_folder.empty() && starts_with(entry, page)))
      return true;
  if (marks.beat_folder.empty()) return false;
  // Before it becomes the rank's program the wrapper has the folder as an argument, and not in the environment that it
  // was started with.
  const std::vector<std::string> arguments = entries_of(pid, "cmdline");
  const auto named = std::find(arguments.begin(), arguments.end(), "--beat-dir");
  return arguments.size() > 1 && arguments[1] == "rank" && named != arguments.end() && named + 1 != arguments.end() &&
         *(named + 1) == marks.beat_folder;
}

Error ended(std::int64_t pid) {
  return make_error(ErrorCode::not_found, format("there is no process {} (any more)", pid));
}

}  // namespace

Result<OwnProcess> OwnProcess::of(std::int64_t pid, const JobMarks& marks) {
  const auto refuse = [&](const std::string& why) {
    return make_error(ErrorCode::invalid_input, format("process {} {}", pid, why),
                      "see who writes heartbeat pages here");
  };
  if (pid <= 0 || pid > 0x7fffffff) return ended(pid);
  if (pid == 1 || pid == ::getpid()) return refuse("is no rank");
  OwnProcess own;
  const auto number = static_cast<pid_t>(pid);
  own.fd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, number, 0)));  // close-on-exec by itself
  const auto before = identify_process(number);
  if (!before.ok()) return ended(pid);
  const bool ours = started_below_us(number) || carries(number, marks);
  const auto after = identify_process(number);
  if (!after.ok() || *after != *before) return ended(pid);  // what was read may be of two processes
  if (!ours) return refuse("is none of this job: it was not started below us and carries no mark of the job");
  own.id_ = *before;
  return own;
}

Status OwnProcess::signal(int number) const {
  if (id_.pid <= 0) return make_error(ErrorCode::not_found, "no process of the job is known there");
#ifdef SYS_pidfd_send_signal
  if (fd_.valid()) {
    if (::syscall(SYS_pidfd_send_signal, fd_.get(), number, nullptr, 0) == 0 || errno == ESRCH) return {};
    if (errno != ENOSYS && errno != EPERM)  // EPERM: so say containers that do not know the call
      return errno_error(ErrorCode::io, format("cannot signal process {}", id_.pid), errno);
  }
#endif
  if (!process_alive(id_) || ::kill(id_.pid, number) == 0 || errno == ESRCH) return {};
  return errno_error(ErrorCode::io, format("cannot signal process {}", id_.pid), errno);
}

}  // namespace longhaul
