#include "worker/protocol/node/job_pids.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr const char* job_pids_keyword = "pids";
constexpr std::size_t job_pids_line_max = 1 << 20;

}  // namespace

std::string job_pids_line(const std::set<int>& pids) {
  std::string line = job_pids_keyword;
  for (const int pid : pids) line += format(" {}", pid);
  return line + "\n";
}

std::optional<std::set<int>> job_pids_from_line(const std::string& line) {
  const std::vector<std::string> fields = split(line, ' ');
  if (fields.empty() || fields[0] != job_pids_keyword) return std::nullopt;
  std::set<int> pids;
  for (std::size_t i = 1; i < fields.size(); ++i) {
    char* end = nullptr;
    const long pid = std::strtol(fields[i].c_str(), &end, 10);
    if (fields[i].empty() || *end != '\0' || pid <= 0 || pid > 0x7fffffff) return std::nullopt;
    pids.insert(static_cast<int>(pid));
  }
  return pids;
}

const std::optional<std::set<int>>& JobPidsReader::newest() {
  std::array<char, 4096> room;
  for (pollfd input{descriptor_, POLLIN, 0}; ::poll(&input, 1, 0) > 0;) {
    const ssize_t got = ::read(descriptor_, room.data(), room.size());
    if (got <= 0) break;
    unread_.append(room.data(), static_cast<std::size_t>(got));
  }
  for (std::size_t end = unread_.find('\n'); end != std::string::npos; end = unread_.find('\n')) {
    if (auto pids = job_pids_from_line(unread_.substr(0, end))) pids_ = std::move(pids);
    unread_.erase(0, end + 1);
  }
  if (unread_.size() > job_pids_line_max) unread_.clear();
  return pids_;
}

}  // namespace longhaul
