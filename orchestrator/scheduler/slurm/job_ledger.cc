#include "orchestrator/scheduler/slurm/job_ledger.h"

#include <algorithm>

#include "base/text/text.h"
#include "orchestrator/scheduler/attempt_traces.h"
#include "orchestrator/scheduler/slurm/lost_node.h"

namespace longhaul {
namespace {

constexpr std::int64_t unread_record_ms = 60'000;  // how long an error is no answer

}  // namespace

std::string known_id(const OpenJob& open) {
  if (!open.id.empty()) return open.id;
  const std::string left = id_left_by_newest_lead(open.attempt_dir);
  return left.empty() ? "gone-" + open.key : left;
}

void JobMemory::note_nodes(const SlurmJob& job) {
  if (last_restarts != job.restarts) last_nodes.clear();
  last_restarts = job.restarts;
  const bool left_over = job.state == "NODE_FAIL" || job.ends_as == "NODE_FAIL";
  if (!job.nodes.empty() && !left_over) last_nodes = job.nodes;
}

void JobLedger::forget_all_but(const std::map<std::string, const OpenJob*>& open) {
  std::erase_if(memory_, [&](const auto& entry) { return !open.contains(entry.first); });
}

void JobLedger::conclude(JobInfo info, SlurmRound& round) {
  memory_[info.key].final = info;
  round.infos.emplace_back(0, std::move(info));
}

bool JobLedger::take_record(const OpenJob& open, const std::string& id, int restarts, SchedulerEnd end,
                            SlurmRound& round) {
  const JobMemory& memory = memory_[open.key];
  auto record = read_record(record_path(open.attempt_dir, restarts));
  unread_.erase(open.key);
  if (!record.ok() && record.error().code == ErrorCode::io) unread_[open.key] = record.error().message();
  if (!record.ok()) return false;
  JobInfo info;
  info.id = id;
  info.key = open.key;
  info.state = JobState::ended;
  info.started_ms = record->started_ms;
  info.record = std::move(record).value();
  info.end = end;
  info.restarts = restarts;
  info.nodes = info.record->nodes.empty() ? memory.last_nodes : info.record->nodes;
  conclude(std::move(info), round);
  return true;
}

bool JobLedger::waited_long_enough(const OpenJob& open) {
  JobMemory& memory = memory_[open.key];
  const std::int64_t now = access_.clock.monotonic_ns();
  if (memory.missing_since_ns < 0) memory.missing_since_ns = now;
  const std::int64_t grace_ms = unread_.contains(open.key) ? std::max(access_.options.record_grace_ms, unread_record_ms)
                                                           : access_.options.record_grace_ms;
  return (now - memory.missing_since_ns) / 1'000'000 >= grace_ms;
}

void JobLedger::await(const OpenJob& open, const std::string& id, const std::string& why, SlurmRound& round) {
  const JobMemory& memory = memory_[open.key];
  JobInfo info;
  info.id = id;
  info.key = open.key;
  info.state = memory.last_state;
  info.started_ms = memory.last_started_ms;
  info.restarts = memory.last_restarts;
  info.nodes = memory.last_nodes;
  info.reason = why;
  round.infos.emplace_back(0, std::move(info));
}

std::string JobLedger::no_record(const std::string& key) const {
  const auto unread = unread_.find(key);
  return unread == unread_.end() ? "; its lead left no record" : "; its record: " + unread->second;
}

void JobLedger::name_lost_nodes(SlurmRound& round) {
  std::vector<SlurmNode> nodes;
  for (auto& [submitted, info] : round.infos) {
    const bool ended = info.state == JobState::ended || info.state == JobState::lost;
    if (!ended || info.end != SchedulerEnd::node_fail || info.nodes.empty()) continue;
    JobMemory& memory = memory_[info.key];
    const bool all_of_them = info.nodes == memory.last_nodes || (info.record && info.nodes == info.record->nodes);
    if (all_of_them && info.nodes.find_first_of(",[") == std::string::npos) {
      info.lost_node = info.nodes;
    } else {
      if (nodes.empty()) {
        auto answer = access_.port.nodes();
        if (!answer.ok()) return;
        nodes = std::move(answer).value();
      }
      info.lost_node = lost_node(info.nodes, nodes);
    }
    if (memory.final) memory.final->lost_node = info.lost_node;
  }
}

}  // namespace longhaul
