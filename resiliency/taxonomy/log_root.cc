#include "resiliency/taxonomy/log_root.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <set>
#include <tuple>

#include "base/text/text.h"
#include "resiliency/taxonomy/fingerprint.h"

namespace longhaul {
namespace {

constexpr std::size_t line_bytes_max = 800;

struct Found {
  LineFinding finding;
  const LogTail* tail = nullptr;
  std::string_view line;
  std::int64_t at_ms = 0;

  // Less is nearer to the cause.
  auto key() const {
    return std::tuple(finding.role, at_ms > 0 ? at_ms : std::numeric_limits<std::int64_t>::max(), tail->rank);
  }
};

std::string_view cut(std::string_view line) {
  while (!line.empty() && (line.front() == ' ' || line.front() == '\t' || line.front() == '\r')) line.remove_prefix(1);
  while (!line.empty() && (line.back() == ' ' || line.back() == '\t' || line.back() == '\r')) line.remove_suffix(1);
  return line.substr(0, line_bytes_max);
}

// The first line of the best role in one tail.
std::optional<Found> best_of(const LogTail& tail, std::string& scratch) {
  std::optional<Found> best;
  std::int64_t at_ms = 0;
  for (std::size_t begin = 0; begin < tail.text.size();) {
    std::size_t end = tail.text.find('\n', begin);
    if (end == std::string_view::npos) end = tail.text.size();
    const std::string_view line = cut(tail.text.substr(begin, end - begin));
    begin = end + 1;
    if (line.empty()) continue;
    if (const std::int64_t logged_ms = line_time_ms(line)) at_ms = logged_ms;
    const auto finding = classify_line(line, scratch);
    if (!finding || (best && (best->finding.role <= finding->role || finding->alone))) continue;
    best = Found{*finding, &tail, line, at_ms > 0 ? at_ms : tail.ended_ms};
    if (finding->role == LineRole::root) break;
  }
  return best;
}

// Digits of `text` at `at` as a number; -1 where one is none.
int number_at(std::string_view text, std::size_t at, std::size_t digits) {
  int number = 0;
  for (std::size_t i = at; i < at + digits; ++i) {
    if (i >= text.size() || text[i] < '0' || text[i] > '9') return -1;
    number = number * 10 + (text[i] - '0');
  }
  return number;
}

std::int64_t time_at(std::string_view text, std::size_t at) {
  const int year = number_at(text, at, 4), month = number_at(text, at + 5, 2), day = number_at(text, at + 8, 2);
  const int hour = number_at(text, at + 11, 2), minute = number_at(text, at + 14, 2),
            second = number_at(text, at + 17, 2);
  if (std::min({year, month, day, hour, minute, second}) < 0 || text[at + 4] != '-' || text[at + 7] != '-' ||
      text[at + 13] != ':' || text[at + 16] != ':' || (text[at + 10] != 'T' && text[at + 10] != ' '))
    return 0;
  using namespace std::chrono;
  const year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                            std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return 0;
  std::int64_t ms = duration_cast<milliseconds>(sys_days(date).time_since_epoch()).count();
  ms += ((hour * 60LL + minute) * 60 + second) * 1000;
  const std::size_t point = at + 19;
  if (point < text.size() && (text[point] == '.' || text[point] == ','))
    if (const int fraction = number_at(text, point + 1, 3); fraction >= 0) ms += fraction;
  return ms;
}

}  // namespace

std::int64_t line_time_ms(std::string_view line) {
  constexpr std::size_t begins_within = 60, shortest = 19;
  for (std::size_t at = 0; at < begins_within && at + shortest <= line.size(); ++at)
    if (line[at] >= '0' && line[at] <= '9' && line[at + 4] == '-')
      if (const std::int64_t ms = time_at(line, at)) return ms;
  return 0;
}

std::optional<LogRoot> root_of(const std::vector<LogTail>& tails) {
  std::string scratch;
  std::vector<Found> found;
  for (const LogTail& tail : tails)
    if (auto best = best_of(tail, scratch)) found.push_back(*best);
  if (found.empty()) return std::nullopt;
  const Found& first =
      *std::min_element(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.key() < b.key(); });

  LogRoot root;
  root.finding = first.finding;
  root.rank = first.tail->rank;
  root.host = first.tail->host;
  root.line = repair_utf8(first.line);
  root.at_ms = first.at_ms;
  root.ended_ms = first.tail->ended_ms;
  root.ranks = static_cast<int>(tails.size());
  std::vector<std::string> hosts;
  for (const LogTail& tail : tails)
    if (hosts.empty() || hosts.back() != tail.host) hosts.push_back(tail.host);
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  const std::string same = fingerprint(root.line, hosts);
  std::set<std::string_view> hosts_alike;
  for (const Found& other : found) {
    if (other.finding != first.finding || fingerprint(other.line, hosts) != same) continue;
    ++root.alike;
    hosts_alike.insert(other.tail->host);
  }
  root.widespread = first.finding.role == LineRole::root && 2 * root.alike > root.ranks && hosts_alike.size() > 1;
  return root;
}

}  // namespace longhaul
