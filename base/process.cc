#include "base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "base/clock.h"
#include "base/files.h"
#include "base/text.h"

extern char** environ;

namespace longhaul {
namespace {

// What the child needs, prepared before fork: after it only async-signal-safe calls are made.
struct Prepared {
  std::vector<char*> argv;
  std::vector<std::string> environment_text;
  std::vector<char*> envp;
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
  for (const std::string& name : spec.environment_removed) environment.erase(name);
  for (const auto& [name, value] : spec.environment) environment[name] = value;
  for (const auto& [name, value] : environment) p.environment_text.push_back(fmt::format("{}={}", name, value));
  for (const std::string& entry : p.environment_text) p.envp.push_back(const_cast<char*>(entry.c_str()));
  p.envp.push_back(nullptr);
  return p;
}

bool redirect(const std::string& path, int target) {
  if (path.empty()) return true;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (fd < 0) return false;
  if (::dup2(fd, target) < 0) return false;
  ::close(fd);
  return true;
}

[[noreturn]] void exec_child(const SpawnSpec& spec, const Prepared& prepared, int report_fd) {
  int problem = 0;
  if (spec.dies_with_starter) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() == 1) ::_exit(127);  // the starter ended before the call
  }
  const int null_fd = ::open("/dev/null", O_RDONLY);
  if (null_fd >= 0) {
    ::dup2(null_fd, 0);
    if (null_fd > 2) ::close(null_fd);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int s : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD, SIGUSR1, SIGUSR2}) ::signal(s, SIG_DFL);
  if (spec.own_group && !spec.detached && ::setpgid(0, 0) != 0) problem = errno;
  if (!problem && !redirect(spec.stdout_path, 1)) problem = errno;
  if (!problem && !redirect(spec.stderr_path, 2)) problem = errno;
  if (!problem && !spec.working_directory.empty() && ::chdir(spec.working_directory.c_str()) != 0) problem = errno;
  if (!problem) {
    ::execvpe(prepared.argv[0], prepared.argv.data(), prepared.envp.data());
    problem = errno;
  }
  [[maybe_unused]] const ssize_t n = ::write(report_fd, &problem, sizeof problem);
  ::_exit(127);
}

}  // namespace

Result<ProcessId> identify_process(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
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
        const int pid_report = second > 0 ? static_cast<int>(second) : -1;
        const int tagged[2] = {-1, pid_report};
        [[maybe_unused]] const ssize_t n = ::write(report[1], tagged, sizeof tagged);
        ::_exit(0);
      }
    }
    exec_child(spec, prepared, report[1]);
  }
  report_write.reset();
  pid_t pid = first;
  int problem = 0;
  int word = 0;
  for (;;) {
    const ssize_t n = ::read(report_read.get(), &word, sizeof word);
    if (n < 0 && errno == EINTR) continue;
    if (n != sizeof word) break;  // closed by a successful exec
    if (word == -1) {
      int reported = 0;
      if (::read(report_read.get(), &reported, sizeof reported) == sizeof reported) pid = reported;
      continue;
    }
    problem = word;
  }
  if (spec.detached || problem != 0) {
    int ignored = 0;
    while (::waitpid(first, &ignored, 0) < 0 && errno == EINTR) {
    }
  }
  if (problem != 0)
    return errno_error(problem == ENOENT ? ErrorCode::not_found : ErrorCode::io, "cannot start " + spec.argv[0],
                       problem);
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

Result<RunOutput> run_program(const std::vector<std::string>& argv, std::int64_t deadline_ms) {
  SystemClock clock;
  const Deadline deadline(clock, deadline_ms);
  int out[2];
  if (::pipe2(out, O_CLOEXEC) != 0) return errno_error(ErrorCode::io, "cannot create a pipe", errno);
  FileDescriptor out_read(out[0]), out_write(out[1]);
  SpawnSpec spec;
  spec.argv = argv;
  spec.own_group = true;
  spec.stdout_path = "/proc/self/fd/" + std::to_string(out[1]);
  LH_TRY(const pid_t pid, spawn(spec));
  out_write.reset();
  RunOutput result;
  char buffer[4096];
  for (;;) {
    pollfd waiting{out_read.get(), POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(deadline.left_ms(), 1000)));
    if (ready > 0) {
      const ssize_t n = ::read(out_read.get(), buffer, sizeof buffer);
      if (n > 0) {
        result.out.append(buffer, static_cast<std::size_t>(n));
        continue;
      }
      if (n == 0) break;
    }
    if (deadline.passed()) break;
  }
  for (;;) {
    LH_TRY(const auto exited, poll_exit(pid));
    if (exited) {
      result.status = *exited;
      return result;
    }
    if (deadline.passed()) {
      ::kill(-pid, SIGKILL);
      int ignored = 0;
      while (::waitpid(pid, &ignored, 0) < 0 && errno == EINTR) {
      }
      return make_error(ErrorCode::timeout, argv[0] + " did not end within " + std::to_string(deadline_ms) + " ms");
    }
    clock.sleep_ms(2);
  }
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
