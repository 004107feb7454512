#include "orchestrator/scheduler/attempt_traces.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr int restarts_without_trace_max = 16;  // in a row: starts that ended before their lead began

}  // namespace

std::string record_path(const std::string& attempt_dir, int restarts) {
  return join_path(attempt_dir, record_file_name(restarts));
}
std::string claim_path(const std::string& attempt_dir, int restarts) {
  return join_path(attempt_dir, claim_file_name(restarts));
}

Result<int> newest_start(const std::string& attempt_dir) {
  const auto names = list_directory(attempt_dir);
  if (!names.ok() && names.error().code == ErrorCode::not_found) return -1;
  if (!names.ok()) return names.error();
  const auto there = [&](const std::string& name) { return std::binary_search(names->begin(), names->end(), name); };
  int newest = -1;
  for (int restarts = 0; restarts <= newest + restarts_without_trace_max; ++restarts)
    if (there(claim_file_name(restarts)) || there(record_file_name(restarts))) newest = restarts;
  return newest;
}

std::string id_left_by_lead(const std::string& attempt_dir, int restarts) {
  if (const auto record = read_record(record_path(attempt_dir, restarts)); record.ok()) return record->scheduler_job;
  if (const auto claim = read_claim(claim_path(attempt_dir, restarts)); claim.ok()) return claim->scheduler_job;
  return {};
}

std::string id_left_by_newest_lead(const std::string& attempt_dir) {
  const auto newest = newest_start(attempt_dir);
  return newest.ok() ? id_left_by_lead(attempt_dir, std::max(0, *newest)) : std::string();
}

Result<std::string> id_of_a_start(const JobSpec& spec) {
  const auto look = [&](const std::string& folder) -> Result<std::string> {
    LH_TRY(const int newest, newest_start(folder));
    if (newest < 0) return std::string();
    const std::string id = id_left_by_lead(folder, newest);
    return id.empty() ? "gone-" + spec.key : id.substr(0, id.find('_'));
  };
  if (spec.array_tasks.empty()) return look(spec.attempt_dir);
  const auto text = read_file(join_path(spec.attempt_dir, "tasks.txt"));
  if (!text.ok() && text.error().code == ErrorCode::not_found) return std::string();
  if (!text.ok()) return text.error();
  const auto folders = split(*text, '\n');
  for (const int task : spec.array_tasks) {
    const auto line = static_cast<std::size_t>(task);
    if (line >= folders.size() || folders[line].empty()) continue;
    LH_TRY(const std::string id, look(folders[line]));
    if (!id.empty()) return id;
  }
  return std::string();
}

JobRecord never_started_record(const std::string& key, const std::string& id, int restarts, std::int64_t ended_ms,
                               const std::string& witness) {
  JobRecord record;
  record.key = key;
  record.started_ms = record.ended_ms = ended_ms;
  record.outcome = "cancelled";
  record.cause = "cancelled before it started; " + witness;
  record.scheduler_job = id;
  record.restarts = restarts;
  return record;
}

}  // namespace longhaul
