#include "base/process/confined_program.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/files/files.h"
#include "base/files/owned_files.h"
#include "base/system/clock.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr uid_t nobody = 65534;
constexpr int not_started = 125;
constexpr std::int64_t end_patience_ms = 5'000;

// mount_setattr of Linux 5.12, which older headers lack; its number is the same on every architecture.
constexpr long mount_setattr_call = 442;
constexpr unsigned at_recursive = 0x8000;
struct MountAttributes {
  std::uint64_t set = 0, clear = 0, propagation = 0, user_namespace = 0;
};
constexpr std::uint64_t attribute_read_only = 1, attribute_no_suid = 2;

// What the child could not do; it is written to a pipe that a successful exec closes.
enum class Step : int {
  user,
  namespaces,
  user_map,
  mounts_private,
  read_only,
  scratch,
  devices,
  hidden,
  processes,
  process_files,
  limits,
  program,
};
struct StepFailure {
  Step step = Step::program;
  int number = 0;
};

const char* text_of(Step step) {
  switch (step) {
    case Step::user: return "becoming the user nobody";
    case Step::namespaces: return "namespaces of users, mounts, processes and networks";
    case Step::user_map: return "a user namespace with a user in it";
    case Step::mounts_private: return "mounts of its own";
    case Step::read_only: return "read-only mounts (mount_setattr, Linux 5.12)";
    case Step::scratch: return "an empty /tmp";
    case Step::devices: return "an empty /dev";
    case Step::hidden: return "empty folders over those of users";
    case Step::processes: return "a process in the namespace";
    case Step::process_files: return "a /proc of its own";
    case Step::limits: return "limits of resources";
    case Step::program: return "the program";
  }
  return "";
}

// What the child needs, prepared before fork: after it only async-signal-safe calls are made.
struct PreparedChild {
  std::vector<std::string> environment_text;
  std::vector<char*> argv, envp;
  std::vector<std::string> hidden;
  std::string user_map, group_map, scratch_options;
  uid_t user = 0;
  bool limits_processes = false;
  const ConfinedProgram* program = nullptr;
  int input = -1, out = -1, err = -1, report = -1;
};

// Limits of processes count those of a user namespace alone since Linux 5.14; before, all of the user's on the host.
bool counts_by_namespace() {
  utsname name{};
  int major = 0, minor = 0;
  if (::uname(&name) != 0 || std::sscanf(name.release, "%d.%d", &major, &minor) != 2) return false;
  return major > 5 || (major == 5 && minor >= 14);
}

PreparedChild prepare_child(const ConfinedProgram& program) {
  PreparedChild made;
  made.program = &program;
  for (const std::string& one : program.argv) made.argv.push_back(const_cast<char*>(one.c_str()));
  made.argv.push_back(nullptr);
  for (const auto& [name, value] : program.environment) made.environment_text.push_back(format("{}={}", name, value));
  for (const std::string& one : made.environment_text) made.envp.push_back(const_cast<char*>(one.c_str()));
  made.envp.push_back(nullptr);
  for (const char* folder : {"/home", "/root", "/run", "/var/run"})
    if (is_directory(folder) && !starts_with(program.argv.front(), std::string(folder) + "/"))
      made.hidden.emplace_back(folder);
  made.user = ::geteuid() == 0 ? nobody : ::geteuid();
  const gid_t group = ::geteuid() == 0 ? nobody : ::getegid();
  made.user_map = format("{} {} 1", made.user, made.user);
  made.group_map = format("{} {} 1", group, group);
  made.scratch_options = format("size={},nr_inodes=1024,mode=1777", program.limits.files_bytes);
  made.limits_processes = program.isolated && counts_by_namespace();
  return made;
}

// The child's side.
class ConfinedChild {
 public:
  explicit ConfinedChild(const PreparedChild& prepared) : prepared_(prepared) {}

  [[noreturn]] void run() {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::setpgid(0, 0);
    own_descriptors();
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    for (int s : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD, SIGUSR1, SIGUSR2}) ::signal(s, SIG_DFL);
    if (!prepared_.program->isolated) start_program();
    enter_namespaces();
    isolate_files();
    sigset_t awaited;
    ::sigemptyset(&awaited);
    ::sigaddset(&awaited, SIGTERM), ::sigaddset(&awaited, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &awaited, nullptr);
    const pid_t first = ::fork();
    require(first >= 0, Step::processes);
    if (first == 0) {
      ::sigprocmask(SIG_UNBLOCK, &awaited, nullptr);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::setsid();
      own_processes();
      start_program();
    }
    ::close(report_);
    wait_for(first, awaited);
  }

 private:
  void require(bool done, Step step) const {
    if (done) return;
    const StepFailure failure{step, errno};
    [[maybe_unused]] const ssize_t n = ::write(report_, &failure, sizeof failure);
    ::_exit(not_started);
  }

  // 0, 1 and 2, the pipe of reports as 3, and none above.
  void own_descriptors() {
    const int report = ::fcntl(prepared_.report, F_DUPFD, 64), input = ::fcntl(prepared_.input, F_DUPFD, 64),
              out = ::fcntl(prepared_.out, F_DUPFD, 64), err = ::fcntl(prepared_.err, F_DUPFD, 64);
    ::dup2(input, 0), ::dup2(out, 1), ::dup2(err, 2), ::dup2(report, report_);
    ::fcntl(report_, F_SETFD, FD_CLOEXEC);
    constexpr int first_other = 4;
#ifdef SYS_close_range
    if (::syscall(SYS_close_range, static_cast<unsigned>(first_other), ~0U, 0) == 0) return;
#endif
    rlimit limit{};
    const rlim_t end = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? std::min<rlim_t>(limit.rlim_cur, 65536) : 1024;
    for (int fd = first_other; fd < static_cast<int>(end); ++fd) ::close(fd);
  }

  // The first process of a namespace has ended when all others of it have: the kernel kills them before.
  [[noreturn]] static void wait_for(pid_t first, const sigset_t& awaited) {
    int status = 0;
    while (true) {
      const pid_t got = ::waitpid(first, &status, WNOHANG);
      if (got == first) ::_exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
      if (::sigwaitinfo(&awaited, nullptr) == SIGTERM) ::kill(first, SIGKILL);
    }
  }

  bool write_own(const char* path, std::string_view text) const {
    const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const bool done = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    const int number = errno;
    ::close(fd);
    errno = number;
    return done;
  }

  void enter_namespaces() const {
    if (::geteuid() == 0) {
      require(::setgroups(0, nullptr) == 0 && ::setgid(nobody) == 0 && ::setuid(nobody) == 0, Step::user);
      ::prctl(PR_SET_DUMPABLE, 1);  // else /proc/self stays root's
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    require(::unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) == 0,
            Step::namespaces);
    require(write_own("/proc/self/setgroups", "deny") && write_own("/proc/self/uid_map", prepared_.user_map) &&
                write_own("/proc/self/gid_map", prepared_.group_map),
            Step::user_map);
  }

  static bool empty_folder(const char* path, const char* options, unsigned long more_flags) {
    return ::mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV | more_flags, options) == 0;
  }

  void isolate_files() const {
    require(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, Step::mounts_private);
    MountAttributes attributes;
    attributes.set = attribute_read_only | attribute_no_suid;
    require(::syscall(mount_setattr_call, AT_FDCWD, "/", at_recursive, &attributes, sizeof attributes) == 0,
            Step::read_only);
    require(empty_folder("/tmp", prepared_.scratch_options.c_str(), 0), Step::scratch);
    own_devices();
    for (const std::string& folder : prepared_.hidden)
      require(empty_folder(folder.c_str(), "size=4k,mode=555", MS_RDONLY), Step::hidden);
    require(::chdir("/tmp") == 0, Step::scratch);
  }

  void own_devices() const {
    constexpr const char* paths[] = {"/dev/null", "/dev/zero", "/dev/urandom"};
    int devices[3] = {};
    for (int i = 0; i < 3; ++i) devices[i] = ::open(paths[i], O_PATH | O_CLOEXEC);
    require(empty_folder("/dev", "size=64k,mode=755", 0), Step::devices);
    for (int i = 0; i < 3; ++i) {
      if (devices[i] < 0) continue;
      char source[] = "/proc/self/fd/0";
      source[sizeof source - 2] = static_cast<char>('0' + devices[i]);  // 4 to 6: all others are closed
      const int place = ::open(paths[i], O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
      require(place >= 0, Step::devices);
      ::close(place);
      const bool bound = ::mount(source, paths[i], nullptr, MS_BIND, nullptr) == 0;
      require(bound, Step::devices);
      ::close(devices[i]);
    }
    require(::mount("tmpfs", "/dev", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, nullptr) == 0,
            Step::devices);
  }

  // In a container that covers parts of /proc another one may not be mounted; then it is empty.
  void own_processes() const {
    require(::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, nullptr) == 0 ||
                empty_folder("/proc", "size=4k,mode=555", MS_RDONLY),
            Step::process_files);
  }

  static bool bound(int resource, std::uint64_t most) {
    rlimit limit{};
    if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return false;
    limit.rlim_max = std::min<rlim_t>(limit.rlim_max, most);
    limit.rlim_cur = limit.rlim_max;
    return ::setrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0;
  }

  [[noreturn]] void start_program() const {
    const ConfinedLimits& limits = prepared_.program->limits;
    require(bound(RLIMIT_CPU, static_cast<std::uint64_t>(limits.processor_s)) &&
                bound(RLIMIT_AS, limits.memory_bytes) && bound(RLIMIT_FSIZE, limits.files_bytes) &&
                bound(RLIMIT_CORE, 0) && bound(RLIMIT_NOFILE, static_cast<std::uint64_t>(limits.descriptors)) &&
                (!prepared_.limits_processes || bound(RLIMIT_NPROC, static_cast<std::uint64_t>(limits.processes))),
            Step::limits);
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    ::execve(prepared_.argv[0], prepared_.argv.data(), prepared_.envp.data());
    require(false, Step::program);
    ::_exit(not_started);
  }

  const PreparedChild& prepared_;
  static constexpr int report_ = 3;
};

struct Pipe {
  FileDescriptor read, write;
};
Result<Pipe> open_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_error(ErrorCode::io, "cannot create a pipe", errno);
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// A file without a name that holds `text`, to be read from its beginning.
Result<FileDescriptor> input_file(const std::string& text) {
  FileDescriptor file(::memfd_create("input", MFD_CLOEXEC));
  if (file.get() < 0) return errno_error(ErrorCode::io, "cannot keep a program's input", errno);
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(file.get(), text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return errno_error(ErrorCode::io, "cannot keep a program's input", errno);
    at += static_cast<std::size_t>(n);
  }
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

// Kills whatever is left of a program when it goes out of scope.
class RunningGroup {
 public:
  RunningGroup(pid_t leader, bool isolated) : leader_(leader), isolated_(isolated) {}
  RunningGroup(const RunningGroup&) = delete;
  RunningGroup& operator=(const RunningGroup&) = delete;
  ~RunningGroup() { end(); }
  // True once it has ended by itself; what it left in its group is killed then.
  bool ended(ExitStatus& status) {
    siginfo_t seen{};
    if (::waitid(P_PID, static_cast<id_t>(leader_), &seen, WEXITED | WNOHANG | WNOWAIT) != 0 || seen.si_pid == 0)
      return false;
    ::kill(-leader_, SIGKILL);  // before its number is free for others
    const auto exited = poll_exit(leader_);
    if (exited.ok() && *exited) status = **exited;
    reaped_ = true;
    return true;
  }
  // The leader of an isolated one is ours: it kills the program, and ends when all of its processes have.
  void end() {
    if (reaped_) return;
    SystemClock clock;
    const Deadline patience(clock, isolated_ ? end_patience_ms : 0);
    ::kill(leader_, SIGTERM);
    ExitStatus ignored;
    while (!patience.passed()) {
      if (ended(ignored)) return;
      clock.sleep_ms(1);
    }
    ::kill(-leader_, SIGKILL);
    ::kill(leader_, SIGKILL);
    int status = 0;
    while (::waitpid(leader_, &status, 0) < 0 && errno == EINTR) {
    }
    reaped_ = true;
  }

 private:
  pid_t leader_;
  bool isolated_, reaped_ = false;
};

// What a program prints, up to a number of bytes.
class PrintedText {
 public:
  PrintedText(const Pipe& out, const Pipe& err, std::size_t most)
      : streams_{{out.read.get()}, {err.read.get()}}, most_(most) {
    for (const Stream& one : streams_) ::fcntl(one.fd, F_SETFL, O_NONBLOCK);
  }
  // Takes what the pipes hold. False: it is more than may be.
  bool take() {
    bool again = true;
    while (again && size() <= most_) {
      again = false;
      for (Stream& one : streams_)
        if (one.open) again = read(one) || again;
    }
    return size() <= most_;
  }
  void wait(Clock& clock, std::int64_t most_ms) const {
    pollfd waiting[2];
    nfds_t count = 0;
    for (const Stream& one : streams_)
      if (one.open) waiting[count++] = {one.fd, POLLIN, 0};
    if (count == 0)
      clock.sleep_ms(1);
    else
      ::poll(waiting, count, static_cast<int>(most_ms));
  }
  std::string out() { return std::move(streams_[0].text); }
  std::string err() { return std::move(streams_[1].text); }

 private:
  struct Stream {
    int fd = -1;
    std::string text = {};
    bool open = true;
  };
  std::size_t size() const { return streams_[0].text.size() + streams_[1].text.size(); }
  static bool read(Stream& one) {
    char buffer[1 << 12];
    const ssize_t n = ::read(one.fd, buffer, sizeof buffer);
    if (n > 0) one.text.append(buffer, static_cast<std::size_t>(n));
    one.open = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
    return n > 0;
  }
  Stream streams_[2];
  std::size_t most_;
};

ConfinedRun watch(RunningGroup& group, const Pipe& out, const Pipe& err, const ConfinedLimits& limits) {
  constexpr std::int64_t look_ms = 5;
  SystemClock clock;
  const Deadline deadline(clock, limits.deadline_ms);
  PrintedText printed(out, err, limits.output_bytes);
  ConfinedRun made;
  while (true) {
    // The exit is looked at before the pipes: what the program wrote is then in them already.
    const bool ended = group.ended(made.status);
    if (!printed.take()) made.end = ConfinedEnd::output;
    if (!ended && made.end == ConfinedEnd::exited && deadline.passed()) made.end = ConfinedEnd::deadline;
    if (ended || made.end != ConfinedEnd::exited) break;
    printed.wait(clock, std::min(deadline.left_ms(), look_ms));
  }
  group.end();
  made.out = printed.out(), made.err = printed.err();
  return made;
}

// Waits until the program runs or could not be started.
std::optional<StepFailure> failure_of(int report) {
  StepFailure failure;
  while (true) {
    const ssize_t n = ::read(report, &failure, sizeof failure);
    if (n < 0 && errno == EINTR) continue;
    if (n == sizeof failure) return failure;
    return std::nullopt;
  }
}

Error failure_error(const StepFailure& failure, const ConfinedProgram& program) {
  if (failure.step == Step::program)
    return errno_error(ErrorCode::not_found, "cannot start " + program.argv.front(), failure.number);
  return errno_error(ErrorCode::unavailable, std::string("this host does not give ") + text_of(failure.step),
                     failure.number);
}

}  // namespace

Result<ConfinedRun> run_confined(const ConfinedProgram& program) {
  LH_ASSERT(!program.argv.empty() && starts_with(program.argv.front(), "/"), "a confined program has a path");
  LH_TRY(const FileDescriptor input, input_file(program.input));
  LH_TRY(Pipe out, open_pipe());
  LH_TRY(Pipe err, open_pipe());
  LH_TRY(Pipe report, open_pipe());
  PreparedChild prepared = prepare_child(program);
  prepared.input = input.get(), prepared.out = out.write.get(), prepared.err = err.write.get();
  prepared.report = report.write.get();
  const pid_t child = ::fork();
  if (child < 0) return errno_error(ErrorCode::unavailable, "cannot start " + program.argv.front(), errno);
  if (child == 0) ConfinedChild(prepared).run();
  RunningGroup group(child, program.isolated);
  out.write.reset(), err.write.reset(), report.write.reset();
  if (const auto failure = failure_of(report.read.get())) return failure_error(*failure, program);
  return watch(group, out, err, program.limits);
}

std::vector<std::string> limits_not_enforced() {
  std::vector<std::string> made;
  if (!counts_by_namespace())
    made.emplace_back("the number of processes, which Linux counts in a user namespace since 5.14");
  return made;
}

}  // namespace longhaul
