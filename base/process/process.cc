#include "base/process/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>

#include "base/files/files.h"
#include "base/files/owned_files.h"
#include "base/system/clock.h"
#include "base/text/text.h"

extern char** environ;

namespace longhaul {
namespace {

// What the child needs, prepared before fork: after it only async-signal-safe calls are made.
struct Prepared {
  std::vector<char*> argv;
  std::vector<std::string> environment_text;
  std::vector<char*> envp;
  pid_t starter = 0;
};

Prepared prepare(const SpawnSpec& spec) {
  Prepared p;
  for (const std::string& argument : spec.argv) p.argv.push_back(const_cast<char*>(argument.c_str()));
  p.argv.push_back(nullptr);
  std::map<std::string, std::string> environment;
  for (char** entry = environ; *entry; ++entry) {
    const char* equals = std::strchr(*entry, '=');
    if (equals) environment[std::string(*entry, static_cast<std::size_t>(equals - *entry))] = equals + 1;
  }
  for (const std::string& name : spec.environment_removed) {
    if (!ends_with(name, "*")) {
      environment.erase(name);
      continue;
    }
    const std::string prefix = name.substr(0, name.size() - 1);
    std::erase_if(environment, [&](const auto& entry) {
      return starts_with(entry.first, prefix) && std::find(spec.environment_kept.begin(), spec.environment_kept.end(),
                                                           entry.first) == spec.environment_kept.end();
    });
  }
  for (const auto& [name, value] : spec.environment) environment[name] = value;
  for (const auto& [name, value] : environment) p.environment_text.push_back(fmt::format("{}={}", name, value));
  for (const std::string& entry : p.environment_text) p.envp.push_back(const_cast<char*>(entry.c_str()));
  p.envp.push_back(nullptr);
  p.starter = ::getpid();
  return p;
}

bool redirect(const std::string& path, int target) {
  if (path.empty()) return true;
  const int fd = append_descriptor(path.c_str(), 0644);
  if (fd < 0) return false;
  if (::dup2(fd, target) < 0) return false;
  ::close(fd);
  return true;
}

// What a child reports to its starter on a pipe that a successful exec closes.
struct Report {
  enum class What : int { pid, group, stdout_path, stderr_path, working_directory, program } what;
  int number;  // the program's pid, else errno
};
void send_report(int fd, Report::What what, int number) {
  const Report report{what, number};
  [[maybe_unused]] const ssize_t n = ::write(fd, &report, sizeof report);
}
std::string output_file(const std::string& path) {
  return format(": its output file {} ({})", path, kind_and_owner(path));
}
Error report_error(const Report& report, const SpawnSpec& spec) {
  std::string what = "cannot start " + spec.argv[0];
  switch (report.what) {
    case Report::What::stdout_path: what += output_file(spec.stdout_path); break;
    case Report::What::stderr_path: what += output_file(spec.stderr_path); break;
    case Report::What::working_directory: what += ": its folder " + spec.working_directory; break;
    case Report::What::group: what += ": its process group"; break;
    case Report::What::pid:
    case Report::What::program: break;
  }
  return errno_error(report.number == ENOENT ? ErrorCode::not_found : ErrorCode::io, std::move(what), report.number);
}

// Libraries open files without O_CLOEXEC; none of them is the child's business.
void close_on_exec_above_stderr() {
#ifdef SYS_close_range
  constexpr unsigned close_range_cloexec = 4;  // Linux 5.11; older kernels refuse and take the loop
  if (::syscall(SYS_close_range, 3U, ~0U, close_range_cloexec) == 0) return;
#endif
  rlimit limit{};
  const rlim_t end = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? std::min<rlim_t>(limit.rlim_cur, 65536) : 1024;
  for (int fd = 3; fd < static_cast<int>(end); ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

[[noreturn]] void exec_child(const SpawnSpec& spec, const Prepared& prepared, int report_fd) {
  const auto require = [report_fd](bool done, Report::What what) {
    if (done) return;
    send_report(report_fd, what, errno);
    ::_exit(127);
  };
  close_on_exec_above_stderr();
  if (spec.dies_with_starter) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The starter ended before the call, if somebody else is the parent now. A starter may be process 1 of a container.
    if (::getppid() != prepared.starter) ::_exit(127);
  }
  if (spec.stdin_fd >= 0) {
    ::dup2(spec.stdin_fd, 0);  // the copy stays open across exec
  } else if (const int null_fd = ::open("/dev/null", O_RDONLY); null_fd >= 0) {
    ::dup2(null_fd, 0);
    if (null_fd > 2) ::close(null_fd);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int s : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD, SIGUSR1, SIGUSR2}) ::signal(s, SIG_DFL);
  if (spec.own_group && !spec.detached) require(::setpgid(0, 0) == 0, Report::What::group);
  if (spec.stdout_fd >= 0) ::dup2(spec.stdout_fd, 1);
  require(redirect(spec.stdout_path, 1), Report::What::stdout_path);
  require(redirect(spec.stderr_path, 2), Report::What::stderr_path);
  if (!spec.working_directory.empty())
    require(::chdir(spec.working_directory.c_str()) == 0, Report::What::working_directory);
  ::execvpe(prepared.argv[0], prepared.argv.data(), prepared.envp.data());
  require(false, Report::What::program);
  ::_exit(127);
}

}  // namespace

Result<ProcessId> identify_process(pid_t pid) {
  // It may end between opening and reading, which then fails; a stream would throw there.
  const auto read = read_file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text = read.ok() ? *read : std::string();
  const std::size_t after_name = text.rfind(')');
  if (after_name == std::string::npos) return make_error(ErrorCode::not_found, "no process " + std::to_string(pid));
  std::istringstream fields(text.substr(after_name + 2));
  std::string field;
  ProcessId id{pid, 0};
  for (int i = 3; i <= 22 && fields >> field; ++i) {
    if (i == 3 && (field == "Z" || field == "X"))
      return make_error(ErrorCode::not_found, "process " + std::to_string(pid) + " has ended");
    if (i == 22) id.start_ticks = std::strtoull(field.c_str(), nullptr, 10);
  }
  return id;
}

bool process_alive(const ProcessId& id) {
  if (id.pid <= 0) return false;
  const auto now = identify_process(id.pid);
  return now.ok() && *now == id;
}

Result<pid_t> spawn(const SpawnSpec& spec) {
  LH_ASSERT(!spec.argv.empty(), "spawn without a program");
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) return errno_error(ErrorCode::io, "cannot create a pipe", errno);
  FileDescriptor report_read(report[0]), report_write(report[1]);
  const Prepared prepared = prepare(spec);

  const pid_t first = ::fork();
  if (first < 0) return errno_error(ErrorCode::unavailable, "cannot start " + spec.argv[0], errno);
  if (first == 0) {
    if (spec.detached) {
      ::setsid();
      const pid_t second = ::fork();
      if (second != 0) {
        // The middle process reports the program's pid (negative: none) and ends, so nobody has to reap the program.
        send_report(report[1], Report::What::pid, static_cast<int>(second));
        ::_exit(0);
      }
    }
    exec_child(spec, prepared, report[1]);
  }
  report_write.reset();
  pid_t pid = first;
  std::optional<Report> problem;
  for (;;) {
    Report received{};
    const ssize_t n = ::read(report_read.get(), &received, sizeof received);
    if (n < 0 && errno == EINTR) continue;
    if (n != sizeof received) break;  // closed by a successful exec
    if (received.what == Report::What::pid) {
      pid = received.number;
    } else {
      problem = received;
    }
  }
  if (spec.detached || problem) {
    int ignored = 0;
    while (::waitpid(first, &ignored, 0) < 0 && errno == EINTR) {
    }
  }
  if (problem) return report_error(*problem, spec);
  if (pid <= 0) return make_error(ErrorCode::unavailable, "cannot start " + spec.argv[0] + ": fork failed");
  return pid;
}

std::string ExitStatus::text() const {
  if (signal != 0) return "killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
  return "exit code " + std::to_string(code);
}

namespace {
ExitStatus decode(int status) {
  ExitStatus exit;
  if (WIFSIGNALED(status)) {
    exit.signal = WTERMSIG(status);
  } else {
    exit.code = WEXITSTATUS(status);
  }
  return exit;
}
}  // namespace

Result<std::optional<ExitStatus>> poll_exit(pid_t pid) {
  int status = 0;
  pid_t got = 0;
  do {
    got = ::waitpid(pid, &status, WNOHANG);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return errno_error(ErrorCode::not_found, "cannot wait for process " + std::to_string(pid), errno);
  if (got == 0) return std::optional<ExitStatus>{};
  return std::optional<ExitStatus>(decode(status));
}

namespace {
// Appends what a non-blocking pipe holds now, at most 1 MiB: more than a pipe holds, and a program that never stops
// writing cannot keep the caller here. True at the pipe's end.
bool read_available(int fd, std::string& text) {
  char buffer[1 << 14];
  for (int reads = 0; reads < 64; ++reads) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n > 0) {
      text.append(buffer, static_cast<std::size_t>(n));
    } else if (n == 0) {
      return true;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return false;
}
}  // namespace

namespace {
struct OutputPipe {
  FileDescriptor read, write;
  bool at_end = false;
};
Result<OutputPipe> open_output_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_error(ErrorCode::io, "cannot create a pipe", errno);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);  // of this end only: the program's writes still wait
  return OutputPipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}
std::string path_of(const FileDescriptor& fd) {
  return "/proc/self/fd/" + std::to_string(fd.get());
}

void end_group(pid_t leader) {
  ::kill(-leader, SIGKILL);
  int ignored = 0;
  while (::waitpid(leader, &ignored, 0) < 0 && errno == EINTR) {
  }
}

Result<RunOutput> run_to_end(SpawnSpec& spec, bool with_stderr, std::int64_t deadline_ms, std::size_t output_max) {
  SystemClock clock;
  const Deadline deadline(clock, deadline_ms);
  LH_TRY(OutputPipe out, open_output_pipe());
  LH_TRY(OutputPipe err, open_output_pipe());
  spec.own_group = true;
  spec.detached = false;
  spec.stdout_fd = -1;
  spec.stdout_path = path_of(out.write);
  spec.stderr_path = with_stderr ? path_of(err.write) : std::string();
  LH_TRY(const pid_t pid, spawn(spec));
  out.write.reset();
  err.write.reset();
  RunOutput result;
  for (;;) {
    // The exit is looked at before the pipes: what the program wrote is then in the pipes already. Their end of file
    // may come much later, when a background child of the program holds the other end.
    LH_TRY(const auto exited, poll_exit(pid));
    out.at_end = out.at_end || read_available(out.read.get(), result.out);
    err.at_end = err.at_end || read_available(err.read.get(), result.err);
    if (result.out.size() + result.err.size() > output_max) {
      if (!exited) end_group(pid);
      return make_error(ErrorCode::unavailable,
                        format("{} wrote more than {}", spec.argv[0], human_bytes(static_cast<double>(output_max))),
                        "run it by hand and see what it says");
    }
    if (exited) {
      result.status = *exited;
      return result;
    }
    if (deadline.passed()) {
      end_group(pid);
      return make_error(ErrorCode::timeout,
                        spec.argv[0] + " did not end within " + std::to_string(deadline_ms) + " ms");
    }
    pollfd waiting[2];
    nfds_t count = 0;
    for (const OutputPipe* pipe : {&out, &err})
      if (!pipe->at_end) waiting[count++] = {pipe->read.get(), POLLIN, 0};
    const int pause_ms = static_cast<int>(std::min<std::int64_t>(deadline.left_ms(), 10));
    if (count == 0) {
      clock.sleep_ms(1);
    } else {
      ::poll(waiting, count, pause_ms);
    }
  }
}
}  // namespace

Result<RunOutput> run_program(const std::vector<std::string>& argv, std::int64_t deadline_ms) {
  SpawnSpec spec;
  spec.argv = argv;
  return run_to_end(spec, false, deadline_ms, program_output_max);
}

Result<RunOutput> run_captured(SpawnSpec spec, std::int64_t deadline_ms, std::size_t output_max) {
  return run_to_end(spec, true, deadline_ms, output_max);
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string own_program_path() {
  char path[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, static_cast<std::size_t>(n)) : std::string();
}

}  // namespace longhaul
