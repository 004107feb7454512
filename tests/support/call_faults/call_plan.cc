#include "tests/support/call_faults/call_plan.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sstream>
#include <utility>

#include "tests/support/call_faults/next_function.h"

namespace longhaul::call_faults {
namespace {

constexpr std::int64_t look_every_ms = 10;  // at the plan, for further lines
constexpr std::array<const char*, static_cast<std::size_t>(Call::count)> call_names = {
    "open", "read", "write", "fsync", "rename", "readdir", "link", "stat", "unlink", "mkdir", "kill", "clock"};
constexpr std::uint32_t of_files = (1U << static_cast<int>(Call::kill)) - 1;
constexpr std::array<std::pair<const char*, int>, 8> errors = {{{"EIO", EIO},
                                                                {"ESTALE", ESTALE},
                                                                {"ENOSPC", ENOSPC},
                                                                {"EROFS", EROFS},
                                                                {"EACCES", EACCES},
                                                                {"ENOENT", ENOENT},
                                                                {"EDQUOT", EDQUOT},
                                                                {"ETIMEDOUT", ETIMEDOUT}}};

[[noreturn]] void refuse(int number, const std::string& line, const char* why) {
  const std::string text = plan_path() + ":" + std::to_string(number) + ": " + why + ": '" + line +
                           "'; call_plan.h has the form of a line\n";
  direct_call(SYS_write, 2, text.data(), text.size());
  ::_exit(99);
}

std::string program_name() {
  std::string name = file_text("/proc/self/comm");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

bool whole_number(const std::string& text, std::int64_t* number) {
  char* end = nullptr;
  errno = 0;
  *number = std::strtoll(text.c_str(), &end, 10);
  return !text.empty() && *end == '\0' && errno == 0;
}

// "key=value" of a word; both empty where it is none.
std::pair<std::string, std::string> key_and_value(const std::string& word) {
  const auto equal = word.find('=');
  if (equal == std::string::npos) return {};
  return {word.substr(0, equal), word.substr(equal + 1)};
}

std::uint32_t calls_of(const std::string& words, int number, const std::string& line) {
  if (words == "all") return of_files;
  std::uint32_t calls = 0;
  std::stringstream stream(words);
  for (std::string word; std::getline(stream, word, ',');) {
    std::size_t call = 0;
    while (call < call_names.size() && word != call_names[call]) ++call;
    if (call == call_names.size()) refuse(number, line, "no such call");
    calls |= 1U << call;
  }
  return calls;
}

void read_action(Rule& rule, int number, const std::string& line) {
  const auto [key, value] = key_and_value(rule.word);
  const auto only = [&](std::uint32_t calls) {
    if ((rule.calls & ~calls) != 0 || rule.calls == 0) refuse(number, line, "not an action of such a call");
  };
  const auto bit = [](Call call) { return 1U << static_cast<int>(call); };
  if (key == "error") {
    for (const auto& [name, error] : errors)
      if (value == name) rule.number = error;
    if (rule.number == 0) refuse(number, line, "no error that is known here");
    rule.times = 1;
    return only(of_files);
  }
  if (!whole_number(value, &rule.number)) refuse(number, line, "no action");
  if (key == "delay_ms")
    rule.action = Rule::Action::delay, only(of_files | bit(Call::kill));
  else if (key == "stall_ms")
    rule.action = Rule::Action::stall, only(of_files);
  else if (key == "old_listing_ms")
    rule.action = Rule::Action::old_listing, only(bit(Call::readdir));
  else if (key == "ahead_ms")
    rule.action = Rule::Action::ahead, only(bit(Call::clock));
  else
    refuse(number, line, "no action");
  if (rule.action != Rule::Action::ahead && rule.number <= 0) refuse(number, line, "a time from 1 ms on");
}

// Whether it is for this process.
bool read_rule(Rule& rule, int number, const std::string& line) {
  std::stringstream stream(line);
  std::string calls, option;
  if (!(stream >> calls >> rule.path >> rule.word)) refuse(number, line, "less than a call, a path and an action");
  rule.name = "line-" + std::to_string(number);
  rule.calls = calls_of(calls, number, line);
  if (rule.path == "-") rule.path.clear();
  read_action(rule, number, line);
  bool here = true, times_said = false;
  while (stream >> option) {
    const auto [key, value] = key_and_value(option);
    if (key == "host")
      here = here && value == host_name();
    else if (key == "program")
      here = here && value == program_name();
    else if (key == "times" && whole_number(value, &rule.times) && rule.times >= 0)
      times_said = true;
    else if (!(key == "for_ms" && whole_number(value, &rule.for_ms) && rule.for_ms > 0))
      refuse(number, line, "cannot be read");
  }
  if (rule.for_ms > 0 && !times_said) rule.times = 0;
  return here;
}

const Plan* read_plan(const std::string& text) {
  auto* plan = new Plan;  // stays: a thread may be looking at it when the next one comes
  std::stringstream stream(text.substr(0, text.rfind('\n') + 1));
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.find_first_not_of(" \t") == std::string::npos || line.front() == '#') continue;
    plan->emplace_back();
    if (!read_rule(plan->back(), number, line)) plan->pop_back();
  }
  return plan;
}

std::string beside_plan(const std::string& name) {
  return plan_path() + ".done/" + name;
}

// Of the rule, over all processes: when its first passage was.
std::int64_t began_ms(const Rule& rule) {
  const std::string path = beside_plan(rule.name + "-began");
  put_file(path, std::to_string(monotonic_ms()), true);
  return std::atoll(file_text(path).c_str());
}

bool count_passage(const Rule& rule) {
  for (std::int64_t n = 1; n <= rule.times; ++n)
    if (put_file(beside_plan(rule.name + "-" + std::to_string(n)), "", true)) return true;
  return false;
}

// Whether it still acts; counts a passage then.
bool acts(const Rule& rule) {
  if (rule.over.load(std::memory_order_relaxed)) return false;
  const bool in_time = rule.for_ms == 0 || monotonic_ms() < began_ms(rule) + rule.for_ms;
  if (in_time && (rule.times == 0 || count_passage(rule))) return true;
  rule.over = true;
  return false;
}

bool fits(const Rule& rule, Call call, const std::string& path) {
  return (rule.calls >> static_cast<int>(call) & 1U) != 0 && path.compare(0, rule.path.size(), rule.path) == 0;
}

}  // namespace

// Texts that are never freed: a program also makes calls while it ends, when what it has made static is gone.
const std::string& plan_path() {
  static const std::string& path = *[] {
    const char* said = std::getenv("CALL_FAULTS_PLAN");
    return new std::string(said ? said : "");
  }();
  return path;
}

const std::string& host_name() {
  static const std::string& name = *[] {
    std::array<char, HOST_NAME_MAX + 1> text{};
    ::gethostname(text.data(), text.size() - 1);
    return new std::string(text.data());
  }();
  return name;
}

std::int64_t monotonic_ms() {
  timespec now{};
  direct_call(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

const Plan* current_plan() {
  static std::atomic<const Plan*> current{nullptr};
  static std::atomic<std::int64_t> next_look{0};
  static std::atomic<std::size_t> bytes{0};
  if (plan_path().empty()) return nullptr;
  const std::int64_t now = monotonic_ms();
  std::int64_t due = next_look.load();
  if (now < due || !next_look.compare_exchange_strong(due, now + look_every_ms)) return current.load();
  const int saved = errno;
  const std::string text = file_text(plan_path());
  if (text.size() != bytes.exchange(text.size())) current = read_plan(text);
  errno = saved;
  return current.load();
}

const Rule* acting_rule(Call call, const std::string& path, Rule::Action action) {
  const Plan* plan = current_plan();
  if (plan == nullptr) return nullptr;
  for (const Rule& rule : *plan)
    if (rule.action == action && fits(rule, call, path) && acts(rule)) return &rule;
  return nullptr;
}

int pass(Call call, const std::string& path) {
  const Plan* plan = current_plan();
  if (plan == nullptr) return 0;
  const int saved = errno;
  int error = 0;
  for (const Rule& rule : *plan) {
    const bool waits = rule.action == Rule::Action::delay || rule.action == Rule::Action::stall;
    if ((!waits && rule.action != Rule::Action::error) || !fits(rule, call, path) || !acts(rule)) continue;
    std::int64_t until = monotonic_ms() + rule.number;
    if (rule.action == Rule::Action::stall) {
      until = began_ms(rule) + rule.number;
      if (monotonic_ms() >= until) {
        rule.over = true;
        continue;
      }
    }
    log_line(call, rule.word, path);
    if (waits)
      wait_in_state_d(until);
    else
      error = static_cast<int>(rule.number);
    if (error != 0) break;
  }
  errno = saved;
  return error;
}

void log_line(Call call, const std::string& word, const std::string& path) {
  static const std::string& program = *new std::string(program_name());
  const std::string text = std::to_string(monotonic_ms()) + " " + host_name() + " " + program + " " +
                           std::to_string(::getpid()) + " " + call_names[static_cast<std::size_t>(call)] + " " + word +
                           " " + path + "\n";
  const std::string log = plan_path() + ".log";
  const long fd = direct_call(SYS_openat, AT_FDCWD, log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) return;
  direct_call(SYS_write, fd, text.data(), text.size());
  direct_call(SYS_close, fd);
}

std::string path_of(int descriptor) {
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  std::array<char, PATH_MAX> path{};
  const long n = direct_call(SYS_readlinkat, AT_FDCWD, link.c_str(), path.data(), path.size());
  return n > 0 && path[0] == '/' ? std::string(path.data(), static_cast<std::size_t>(n)) : std::string();
}

std::string absolute_from(int folder, const char* path) {
  if (path == nullptr) return "";
  if (path[0] == '/') return path;
  std::string base;
  if (folder == AT_FDCWD) {
    std::array<char, PATH_MAX> here{};
    if (direct_call(SYS_getcwd, here.data(), here.size()) > 0) base = here.data();
  } else {
    base = path_of(folder);
  }
  return path[0] == '\0' ? base : base + "/" + path;
}

std::string file_text(const std::string& path) {
  const long fd = direct_call(SYS_openat, AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC);
  std::string text;
  if (fd < 0) return text;
  std::array<char, 4096> part{};
  for (long n = 0; (n = direct_call(SYS_read, fd, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(n));
  direct_call(SYS_close, fd);
  return text;
}

bool put_file(const std::string& path, const std::string& text, bool only_new) {
  static std::atomic<unsigned> number{0};
  if (only_new && direct_call(SYS_faccessat, AT_FDCWD, path.c_str(), F_OK) == 0) return false;
  direct_call(SYS_mkdirat, AT_FDCWD, path.substr(0, path.rfind('/')).c_str(), 0777);
  // Hosts have numbers of processes of their own.
  const std::string beside =
      path + "." + host_name() + "." + std::to_string(::getpid()) + "." + std::to_string(++number);
  const long fd = direct_call(SYS_openat, AT_FDCWD, beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return false;
  direct_call(SYS_write, fd, text.data(), text.size());
  direct_call(SYS_close, fd);
  if (!only_new) return direct_call(SYS_renameat2, AT_FDCWD, beside.c_str(), AT_FDCWD, path.c_str(), 0) == 0;
  const bool made = direct_call(SYS_linkat, AT_FDCWD, beside.c_str(), AT_FDCWD, path.c_str(), 0) == 0;
  direct_call(SYS_unlinkat, AT_FDCWD, beside.c_str(), 0);
  return made;
}

}  // namespace longhaul::call_faults
