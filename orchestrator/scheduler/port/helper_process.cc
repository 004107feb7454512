#include "orchestrator/scheduler/port/helper_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/process/process.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "orchestrator/scheduler/port/slurm_commands.h"

namespace longhaul {
namespace {

constexpr std::size_t line_bytes_max = 64U << 20;

}  // namespace

HelperProcess::HelperProcess(std::string program, std::string cluster, std::vector<std::string> environment)
    : program_(std::move(program)), cluster_(std::move(cluster)), environment_(std::move(environment)) {}

HelperProcess::~HelperProcess() {
  end();
}

Status HelperProcess::start() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return errno_error(ErrorCode::io, "cannot make a socket for " + program_, errno);
  FileDescriptor ours(ends[0]), theirs(ends[1]);
  ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  stderr_.reset(::memfd_create("longhaul-slurm", MFD_CLOEXEC));
  SpawnSpec spec;
  spec.argv = {program_};
  if (!cluster_.empty()) spec.argv.insert(spec.argv.end(), {"--cluster", cluster_});
  spec.stdin_fd = spec.stdout_fd = theirs.get();
  if (stderr_.valid()) spec.stderr_path = format("/proc/self/fd/{}", stderr_.get());
  spec.dies_with_starter = true;
  leave_outer_job(spec);
  submit_with(environment_, spec);
  LH_TRY(pid_, spawn(spec));
  socket_ = std::move(ours);
  received_.clear();
  read_ = 0;
  return {};
}

void HelperProcess::end() {
  socket_.reset();
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  pid_ = -1;
  stderr_.reset();
}

std::string HelperProcess::last_failure_line() {
  if (!stderr_.valid()) return {};
  char text[2048];
  const off_t size = ::lseek(stderr_.get(), 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - static_cast<off_t>(sizeof text));
  const ssize_t count = ::pread(stderr_.get(), text, sizeof text, from);
  std::string last;
  if (count > 0)
    for (const std::string& line : split(std::string_view(text, static_cast<std::size_t>(count)), '\n'))
      if (!trim(line).empty()) last = repair_utf8(trim(line));
  return last.empty() ? last : ": " + last;
}

Error HelperProcess::lost(const std::string& what) {
  const std::string failure = last_failure_line();
  end();
  return make_error(ErrorCode::unavailable, "longhaul-slurm " + what + failure,
                    "it is started again for the next request");
}

Status HelperProcess::move_bytes(const std::string& text, std::size_t& sent, const Deadline& deadline) {
  const bool sending = sent < text.size();
  pollfd waiting{socket_.get(), static_cast<short>(POLLIN | (sending ? POLLOUT : 0)), 0};
  const int ready = ::poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(deadline.left_ms(), 1000)));
  if (ready < 0 && errno != EINTR) return errno_error(ErrorCode::io, "cannot wait for longhaul-slurm", errno);
  if (ready <= 0) return {};
  if (waiting.revents & POLLOUT) {
    const ssize_t count = ::send(socket_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count > 0) sent += static_cast<std::size_t>(count);
    // A helper that has died may still have left answers: reading finds its end.
  }
  if (waiting.revents & (POLLIN | POLLHUP | POLLERR)) return receive();
  return {};
}

Status HelperProcess::receive() {
  char buffer[1 << 16];
  const ssize_t count = ::recv(socket_.get(), buffer, sizeof buffer, 0);
  if (count > 0) received_.append(buffer, static_cast<std::size_t>(count));
  if (count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR))) return {};
  int status = 0;
  std::string how = "has ended";
  // It closes the socket a moment before it can be waited for.
  for (int tries = 0; tries < 100; ++tries) {
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      how = WIFSIGNALED(status) ? format("was killed by signal {}", WTERMSIG(status))
                                : format("ended with exit code {}", WEXITSTATUS(status));
      pid_ = -1;
      break;
    }
    clock_.sleep_ms(1);
  }
  return lost(how);
}

Status HelperProcess::exchange(const std::string& text, std::int64_t deadline_ms, const AnswerSink& take,
                               const std::function<bool()>& done) {
  std::size_t sent = 0;
  Deadline deadline(clock_, deadline_ms);
  while (!done()) {
    const std::size_t newline = received_.find('\n', read_);
    if (newline != std::string::npos) {
      const auto answer = parse_json(std::string_view(received_).substr(read_, newline - read_), "longhaul-slurm");
      read_ = newline + 1;
      if (!answer.ok() || !answer->is_table() || !take(*answer)) return lost("answered what nobody asked");
      deadline = Deadline(clock_, deadline_ms);
      continue;
    }
    if (read_ > 0) {
      received_.erase(0, read_);
      read_ = 0;
    }
    if (received_.size() > line_bytes_max) return lost("answers without end");
    if (deadline.passed()) return lost(format("gave no answer within {} s", deadline_ms / 1000));
    LH_CHECK(move_bytes(text, sent, deadline));
  }
  return {};
}

}  // namespace longhaul
