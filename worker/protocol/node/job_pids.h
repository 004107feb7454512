// Which processes of a host are the job's, sent by an agent or a lead to the health program beside it: lines
// "pids 12 13\n" on that program's standard input, one whenever they change.
#pragma once

#include <optional>
#include <set>
#include <string>

namespace longhaul {

std::string job_pids_line(const std::set<int>& pids);
// nullopt: another line.
std::optional<std::set<int>> job_pids_from_line(const std::string& line);

// The other end. Never waits.
class JobPidsReader {
 public:
  explicit JobPidsReader(int descriptor) : descriptor_(descriptor) {}  // not owned
  // The newest that was sent; nothing: none yet.
  const std::optional<std::set<int>>& newest();

 private:
  int descriptor_;
  std::string unread_;
  std::optional<std::set<int>> pids_;
};

}  // namespace longhaul
