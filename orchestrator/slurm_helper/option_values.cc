#include "orchestrator/slurm_helper/option_values.h"

#include <signal.h>

#include <charconv>
#include <map>
#include <vector>

#include "base/text/text.h"

namespace longhaul {

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size() || text.empty()) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> mebibytes(const std::string& text) {
  const std::size_t digits = text.find_first_not_of("0123456789");
  const auto number = whole_number(text.substr(0, digits));
  if (!number) return std::nullopt;
  std::string unit = digits == std::string::npos ? "" : text.substr(digits);
  if (unit.size() == 2 && (unit[1] == 'B' || unit[1] == 'b')) unit.pop_back();
  const auto count = static_cast<std::uint64_t>(*number);
  if (unit.empty() || unit == "M" || unit == "m") return count;
  if (unit == "K" || unit == "k") return (count + 1023) / 1024;
  if (unit == "G" || unit == "g") return count << 10;
  if (unit == "T" || unit == "t") return count << 20;
  return std::nullopt;
}

std::optional<std::int64_t> time_seconds(const std::string& text) {
  std::string rest = text;
  std::int64_t days = 0;
  const std::size_t dash = text.find('-');
  if (dash != std::string::npos) {
    const auto number = whole_number(text.substr(0, dash));
    if (!number || *number < 0) return std::nullopt;
    days = *number;
    rest = text.substr(dash + 1);
  }
  std::vector<std::int64_t> parts;
  for (const std::string& part : split(rest, ':')) {
    const auto number = whole_number(part);
    if (!number || *number < 0) return std::nullopt;
    parts.push_back(*number);
  }
  if (parts.empty() || parts.size() > 3) return std::nullopt;
  std::int64_t hours = 0, minutes = 0, seconds = 0;
  if (dash != std::string::npos || parts.size() == 3) {
    hours = parts[0];
    minutes = parts.size() > 1 ? parts[1] : 0;
    seconds = parts.size() > 2 ? parts[2] : 0;
  } else {
    minutes = parts[0];
    seconds = parts.size() > 1 ? parts[1] : 0;
  }
  return ((days * 24 + hours) * 60 + minutes) * 60 + seconds;
}

std::optional<int> signal_number(std::string name) {
  if (const auto number = whole_number(name))
    return *number > 0 && *number < 0xffff ? std::optional<int>(*number) : std::nullopt;
  if (starts_with(name, "SIG")) name = name.substr(3);
  static const std::map<std::string, int> names = {
      {"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT}, {"ABRT", SIGABRT}, {"KILL", SIGKILL}, {"ALRM", SIGALRM},
      {"TERM", SIGTERM}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"URG", SIGURG},   {"CONT", SIGCONT}, {"STOP", SIGSTOP},
      {"TSTP", SIGTSTP}, {"TTIN", SIGTTIN}, {"TTOU", SIGTTOU}, {"XCPU", SIGXCPU}};
  const auto found = names.find(name);
  return found == names.end() ? std::nullopt : std::optional<int>(found->second);
}

std::optional<std::uint32_t> time_limit_minutes(const std::string& text) {
  for (const char* name : {"UNLIMITED", "INFINITE", "unlimited", "infinite", "-1"})
    if (text == name) return 0;
  const auto seconds = time_seconds(text);
  if (!seconds || *seconds > 60LL * 0x7fffffff) return std::nullopt;
  return static_cast<std::uint32_t>((*seconds + 59) / 60);
}

}  // namespace longhaul
