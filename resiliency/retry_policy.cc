#include "resiliency/retry_policy.h"

#include <algorithm>
#include <map>

#include "base/text/text.h"
#include "resiliency/taxonomy/fault_table.h"
#include "resiliency/taxonomy/fingerprint.h"

namespace longhaul {
namespace {

// Ends of the newest one's group, back to the last that had made progress.
int used_without_progress(const std::vector<PastEnd>& ends) {
  const FaultGroup group = group_of(ends.back().fault);
  int used = 0;
  for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
    if (group_of(end->fault) != group) continue;
    ++used;
    if (end->made_progress) break;
  }
  return used;
}

// Jobs whose wall time was over, since anything new was saved.
int barren_wall_times(const std::vector<PastEnd>& ends) {
  int barren = 0;
  for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
    if (end->made_progress) break;
    if (group_of(end->fault) == FaultGroup::wall_time) ++barren;
  }
  return barren;
}

int used_at_all(const std::vector<PastEnd>& ends) {
  const FaultGroup group = group_of(ends.back().fault);
  return static_cast<int>(
      std::count_if(ends.begin(), ends.end(), [&](const PastEnd& end) { return group_of(end.fault) == group; }));
}

int same_cause_without_progress(const std::vector<PastEnd>& ends) {
  const PastEnd& newest = ends.back();
  const std::string cause = fingerprint(newest.cause);
  int same = 0;
  for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
    if (end->fault != newest.fault || end->made_progress || fingerprint(end->cause) != cause) break;
    ++same;
  }
  return same;
}

RetryVerdict within(int used, int budget, const char* of_what) {
  if (used > budget)
    return {false, budget == 0 ? format("no retries of {} allowed", of_what)
                               : format("all {} retries of {} used", budget, of_what)};
  return {true, format("retry {} of {} ({})", used, budget, of_what)};
}

RetryVerdict after_application(const std::vector<PastEnd>& ends, const RetryBudgets& budgets) {
  if (const int same = same_cause_without_progress(ends); same >= same_cause_max)
    return {false, format("the same cause {} times without progress", same)};
  const int used = budgets.resumable ? used_without_progress(ends) : used_at_all(ends);
  if (used > budgets.application)
    return {false,
            budgets.application == 0 ? "no retries allowed" : format("all {} retries used", budgets.application)};
  if (budgets.resumable) return {true, format("retry {} of {} since it last got further", used, budgets.application)};
  return {true, format("attempt {} of {}", used + 1, budgets.application + 1)};
}

RetryVerdict after_memory(const std::vector<PastEnd>& ends, const RetryBudgets& budgets) {
  const PastEnd& newest = ends.back();
  const bool elsewhere = budgets.can_exclude && !newest.node.empty();
  if (used_at_all(ends) == 1 && elsewhere) return {true, "once more, on another node than " + newest.node};
  return {false, "out of memory is not tried the same way twice: give it more nodes, more memory or smaller batches"};
}

RetryVerdict after_wall_time(const std::vector<PastEnd>& ends, const RetryBudgets& budgets) {
  if (!budgets.resumable)
    return {false, "the job's wall time is over, and this stage cannot go on where it stopped (job.resumable)"};
  if (barren_wall_times(ends) >= 2)
    return {false, "two jobs in a row reached their wall time without a new checkpoint"};
  return {true, "goes on where it stopped"};
}

}  // namespace

RetryVerdict decide_retry(const std::vector<PastEnd>& ends, const RetryBudgets& budgets) {
  if (ends.empty()) return {true, "nothing failed yet"};
  const PastEnd& newest = ends.back();
  const FaultGroup group = group_of(newest.fault);
  if (group == FaultGroup::none && newest.fault == FaultClass::cancelled_there)
    return {false, "it was cancelled in the scheduler, not through longhaul; `longhaul resume` tries it again"};
  if (group == FaultGroup::none) return {false, "nothing to try again"};
  if (group == FaultGroup::hopeless)
    return {false,
            format("{} is not cured by trying again: {}", to_string(newest.fault), info_of(newest.fault).meaning)};
  if (group == FaultGroup::wall_time) return after_wall_time(ends, budgets);
  if (group == FaultGroup::memory) return after_memory(ends, budgets);
  if (group == FaultGroup::infrastructure)
    return within(used_without_progress(ends), budgets.infrastructure, "infrastructure");
  if (group == FaultGroup::preemption) return within(used_without_progress(ends), budgets.preemptions, "preemption");
  if (group == FaultGroup::validation) return within(used_without_progress(ends), budgets.validations, "validation");
  return after_application(ends, budgets);
}

void add_evidence(const EndedJob& job, std::vector<NodeEvidence>& evidence) {
  if (!job.node.empty())
    evidence.push_back(
        {job.node, job.fault, job.at_ms, format("{} of {}", to_string(job.fault), job.where), job.cause});
  for (const std::string& node : job.nodes_left)
    if (node != job.node)
      evidence.push_back({node, FaultClass::host_unreachable, job.at_ms, "left by " + job.where, {}});
}

namespace {

// Faults on one host, oldest first.
using HostFaults = std::vector<const NodeEvidence*>;

// Of a fault that may be the program's: whether other hosts met the same at least as often.
bool follows_the_program(const NodeEvidence& seen, const std::vector<NodeEvidence>& evidence) {
  if (seen.cause.empty()) return false;
  const std::string cause = fingerprint(seen.cause);
  int here = 0, elsewhere = 0;
  for (const NodeEvidence& other : evidence) {
    if (other.node.empty() || other.fault != seen.fault || fingerprint(other.cause) != cause) continue;
    ++(other.node == seen.node ? here : elsewhere);
  }
  return elsewhere >= here;
}

// By host, those that speak against it: the sure ones, and the doubtful ones that are not the program's.
std::map<std::string, HostFaults> faults_that_count(const std::vector<NodeEvidence>& evidence) {
  std::map<std::string, HostFaults> counted;
  for (const NodeEvidence& seen : evidence) {
    const Accusation accuses = info_of(seen.fault).accuses;
    if (seen.node.empty() || accuses == Accusation::never) continue;
    if (accuses == Accusation::doubtful && follows_the_program(seen, evidence)) continue;
    counted[seen.node].push_back(&seen);
  }
  for (auto& [node, faults] : counted)
    std::stable_sort(faults.begin(), faults.end(),
                     [](const NodeEvidence* a, const NodeEvidence* b) { return a->at_ms < b->at_ms; });
  return counted;
}

NodeSuspicion suspicion_of(const HostFaults& faults, std::int64_t expiry_ms) {
  constexpr int doublings_max = 3;
  const std::int64_t memory_ms = expiry_ms << doublings_max;
  NodeSuspicion suspicion;
  int accusations = 0;
  for (std::size_t i = 0; i < faults.size(); ++i) {
    const NodeEvidence& seen = *faults[i];
    suspicion.faults = i > 0 && seen.at_ms - faults[i - 1]->at_ms <= memory_ms ? suspicion.faults + 1 : 1;
    if (info_of(seen.fault).accuses == Accusation::doubtful && suspicion.faults < 2) continue;
    suspicion.node = seen.node;
    suspicion.since_ms = seen.at_ms;
    suspicion.until_ms = seen.at_ms + (expiry_ms << std::min(accusations, doublings_max));
    suspicion.evidence = seen.what;
    ++accusations;
  }
  return suspicion;
}

}  // namespace

std::vector<NodeSuspicion> suspect_nodes(const std::vector<NodeEvidence>& evidence, std::int64_t now_ms,
                                         std::int64_t expiry_ms) {
  std::vector<NodeSuspicion> suspects;
  for (const auto& [node, faults] : faults_that_count(evidence)) {
    NodeSuspicion suspicion = suspicion_of(faults, expiry_ms);
    if (suspicion.until_ms > now_ms) suspects.push_back(std::move(suspicion));
  }
  return suspects;
}

}  // namespace longhaul
