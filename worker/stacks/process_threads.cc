#include "worker/stacks/process_threads.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <map>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::size_t arguments_max = 300;

// Those that programs wait in; others keep their number. Numbers differ between machines, names of constants do not.
const std::map<long, const char*>& names_of_calls() {
  static const std::map<long, const char*> names = {
      {SYS_read, "read"},
      {SYS_write, "write"},
      {SYS_pread64, "pread64"},
      {SYS_pwrite64, "pwrite64"},
      {SYS_readv, "readv"},
      {SYS_writev, "writev"},
      {SYS_openat, "openat"},
      {SYS_close, "close"},
      {SYS_fsync, "fsync"},
      {SYS_fdatasync, "fdatasync"},
      {SYS_ioctl, "ioctl"},
      {SYS_futex, "futex"},
      {SYS_ppoll, "ppoll"},
      {SYS_pselect6, "pselect6"},
      {SYS_epoll_pwait, "epoll_pwait"},
      {SYS_nanosleep, "nanosleep"},
      {SYS_clock_nanosleep, "clock_nanosleep"},
      {SYS_wait4, "wait4"},
      {SYS_waitid, "waitid"},
      {SYS_connect, "connect"},
      {SYS_accept, "accept"},
      {SYS_accept4, "accept4"},
      {SYS_recvfrom, "recvfrom"},
      {SYS_recvmsg, "recvmsg"},
      {SYS_sendto, "sendto"},
      {SYS_sendmsg, "sendmsg"},
      {SYS_sched_yield, "sched_yield"},
      {SYS_rt_sigtimedwait, "rt_sigtimedwait"},
      {SYS_rt_sigsuspend, "rt_sigsuspend"},
      {SYS_io_getevents, "io_getevents"},
      {SYS_renameat2, "renameat2"},
      {SYS_munmap, "munmap"},
      {SYS_mmap, "mmap"},
      {SYS_exit, "exit"},
      {SYS_exit_group, "exit_group"},
#ifdef SYS_poll  // the older calls that newer machines do not have
      {SYS_poll, "poll"},
      {SYS_select, "select"},
      {SYS_epoll_wait, "epoll_wait"},
      {SYS_pause, "pause"},
      {SYS_open, "open"},
      {SYS_stat, "stat"},
#endif
  };
  return names;
}

// "202 0x7ffe... 0x80 0x0 0x0 0x0 0x1 sp pc", "running", or "-1 sp pc" outside of any call.
std::string call_text(const std::string& line) {
  const std::vector<std::string> fields = split(trim(line), ' ');
  if (fields.size() < 9) return {};
  const long number = std::atol(fields[0].c_str());
  const auto known = names_of_calls().find(number);
  const std::string name = known == names_of_calls().end() ? "call " + fields[0] : known->second;
  return name + "(" + join({fields.begin() + 1, fields.begin() + 7}, ", ") + ")";
}

struct StatFields {
  char state = '?';
  pid_t parent = 0;
};
// The name in parentheses may hold any character, also these.
std::optional<StatFields> read_stat(const std::string& path) {
  const auto stat = read_file(path);
  const auto end = stat.ok() ? stat->rfind(')') : std::string::npos;
  if (end == std::string::npos || end + 4 >= stat->size()) return std::nullopt;
  return StatFields{(*stat)[end + 2], static_cast<pid_t>(std::atoi(stat->c_str() + end + 4))};
}

std::string read_line(const std::string& path) {
  const auto text = read_file(path);
  return text.ok() ? trim(*text) : "";
}

Result<ProcessFacts> facts_of(pid_t pid, int threads_max, bool all) {
  ProcessFacts facts;
  facts.pid = pid;
  const std::string folder = format("/proc/{}", pid);
  const auto stat = read_stat(folder + "/stat");
  if (!stat || stat->state == 'Z' || stat->state == 'X')
    return make_error(ErrorCode::not_found, format("process {} has ended", pid));
  if (all) {
    char program[PATH_MAX];
    const ssize_t n = ::readlink((folder + "/exe").c_str(), program, sizeof program);
    if (n > 0) facts.program.assign(program, static_cast<std::size_t>(n));
    facts.arguments = replace_all(read_line(folder + "/cmdline"), std::string_view("\0", 1), " ");
    facts.arguments = replace_all(facts.arguments, "\n", " ");
    if (facts.arguments.size() > arguments_max) facts.arguments = facts.arguments.substr(0, arguments_max) + " ...";
  }
  LH_TRY(const std::vector<std::string> names, list_directory(folder + "/task"));
  std::vector<pid_t> tids;
  for (const std::string& name : names) tids.push_back(static_cast<pid_t>(std::atoi(name.c_str())));
  std::sort(tids.begin(), tids.end());
  for (const pid_t tid : tids) {
    if (static_cast<int>(facts.threads.size()) == threads_max) {
      ++facts.threads_left_out;
      continue;
    }
    const std::string of_thread = format("{}/task/{}", folder, tid);
    const auto thread_stat = read_stat(of_thread + "/stat");
    if (!thread_stat) continue;  // ended meanwhile
    ThreadFacts thread;
    thread.tid = tid;
    thread.state = thread_stat->state;
    thread.name = read_line(of_thread + "/comm");
    thread.waits_in = read_line(of_thread + "/wchan");
    if (thread.waits_in == "0") thread.waits_in.clear();
    if (all) thread.syscall = call_text(read_line(of_thread + "/syscall"));
    if (all && thread.state == 'D') thread.kernel_stack = read_line(of_thread + "/stack");
    facts.threads.push_back(std::move(thread));
  }
  return facts;
}

}  // namespace

std::string state_text(char state) {
  switch (state) {
    case 'R': return "R (running)";
    case 'S': return "S (sleeping)";
    case 'D': return "D (in the kernel, uninterruptible)";
    case 'T': return "T (stopped by a signal)";
    case 't': return "t (stopped by a debugger)";
    case 'Z': return "Z (ended, not waited for)";
    case 'I': return "I (idle)";
    default: return std::string(1, state);
  }
}

Result<ProcessFacts> process_facts(pid_t pid, int threads_max) {
  return facts_of(pid, threads_max, true);
}
Result<ProcessFacts> process_facts_at_once(pid_t pid, int threads_max) {
  return facts_of(pid, threads_max, false);
}

std::vector<pid_t> process_and_descendants(pid_t pid, std::size_t most) {
  std::multimap<pid_t, pid_t> children;
  const auto names = list_directory("/proc");
  if (names.ok())
    for (const std::string& name : *names) {
      const pid_t one = static_cast<pid_t>(std::atoi(name.c_str()));
      const auto stat = one > 0 ? read_stat(format("/proc/{}/stat", one)) : std::nullopt;
      if (stat && stat->state != 'Z') children.emplace(stat->parent, one);
    }
  std::vector<pid_t> all = {pid};
  for (std::size_t i = 0; i < all.size(); ++i)
    for (auto [child, end] = children.equal_range(all[i]); child != end && all.size() < most; ++child)
      all.push_back(child->second);
  return all;
}

}  // namespace longhaul
