#include "resiliency/taxonomy/verdict.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/text/text.h"
#include "resiliency/taxonomy/fingerprint.h"

namespace longhaul {
namespace {

bool was_meant(FaultClass fault) {
  switch (fault) {
    case FaultClass::cancelled:
    case FaultClass::cancelled_there:
    case FaultClass::preempted:
    case FaultClass::wall_time:
    case FaultClass::time_limit: return true;
    default: return false;
  }
}

bool is_agreed(FaultClass fault) {
  return fault == FaultClass::no_retry || fault == FaultClass::rerun_to_compare ||
         fault == FaultClass::failed_validation;
}

// Less is nearer to the cause.
auto verdict_key(const Observation& seen) {
  constexpr std::int64_t latest = std::numeric_limits<std::int64_t>::max();
  constexpr int last = std::numeric_limits<int>::max();
  return std::tuple(strength_of(seen), seen.at_ms > 0 ? seen.at_ms : latest, seen.source,
                    seen.rank >= 0 ? seen.rank : last);
}

// The first rank that is known to be hit on the host: a check knows hosts and no ranks. -1: none.
int rank_on(const std::vector<Observation>& seen, const std::string& host) {
  if (host.empty()) return -1;
  for (const Observation& one : seen)
    if (one.rank >= 0 && one.host == host && one.fault != FaultClass::none && one.role == LineRole::root)
      return one.rank;
  return -1;
}

// Whether `other` says why `first` happened, which by itself says only how.
bool explains(const Observation& other, const Observation& first) {
  if (strength_of(other) != Strength::happened || strength_of(first) < Strength::happened) return false;
  if (first.source != ObservationSource::exit && first.source != ObservationSource::detector) return false;
  if (other.source == ObservationSource::log) return other.rank == first.rank && first.rank >= 0;
  return other.source == ObservationSource::health && !other.host.empty() && other.host == first.host;
}

// A rank that says that it has stopped as it was asked to was not killed: signal 9 is how its launcher, or its lead,
// ended those that were left.
void set_aside_kills_after_a_stop(std::vector<Observation>& seen) {
  for (Observation& end : seen) {
    if (end.source != ObservationSource::exit || end.fault != FaultClass::killed) continue;
    const bool stopped = std::any_of(seen.begin(), seen.end(), [&](const Observation& one) {
      return one.source == ObservationSource::log && one.role == LineRole::root &&
             one.fault == FaultClass::interrupted && one.rank == end.rank && one.rank >= 0;
    });
    if (stopped) end.role = LineRole::cascade;
  }
}

// Somebody sent SIGKILL, or a rank has said what is wrong, and not that a file is.
bool has_cause_of_its_own(const Observation& seen) {
  if (seen.role != LineRole::root) return false;
  return (seen.source == ObservationSource::exit && seen.fault == FaultClass::killed) ||
         (seen.source == ObservationSource::detector && seen.fault == FaultClass::exception);
}

// A file system that does not answer, or gives errors, holds processes and fails their calls. It is no cause of what
// has one of its own, whichever hosts have noticed it.
void set_aside_storage(std::vector<Observation>& seen) {
  if (std::none_of(seen.begin(), seen.end(), has_cause_of_its_own)) return;
  for (Observation& one : seen)
    if (one.source == ObservationSource::health && one.fault == FaultClass::file_system)
      one.role = LineRole::confirmation;
}

}  // namespace

const char* to_string(ObservationSource source) {
  switch (source) {
    case ObservationSource::scheduler: return "scheduler";
    case ObservationSource::exit: return "exit";
    case ObservationSource::log: return "log";
    case ObservationSource::health: return "health";
    case ObservationSource::detector: return "detector";
  }
  return "unknown";
}

Observation observe_log(const LogRoot& root) {
  Observation seen{ObservationSource::log,
                   root.finding.fault,
                   root.rank,
                   root.host,
                   format("rank {}: {}", root.rank, root.line),
                   root.ended_ms,
                   root.finding.role,
                   root.widespread};
  // Such a line is about another host than its writer's.
  if (seen.fault == FaultClass::node_fail || seen.fault == FaultClass::host_unreachable) seen.rank = -1, seen.host = "";
  return seen;
}

Strength strength_of(const Observation& seen) {
  const FaultInfo& info = info_of(seen.fault);
  if (seen.fault == FaultClass::none) return Strength::nothing;
  if (seen.role != LineRole::root) return Strength::echo;
  if (was_meant(seen.fault)) return Strength::asked;
  if (is_agreed(seen.fault)) return Strength::agreed;
  if (info.severity == FaultSeverity::note || info.severity == FaultSeverity::warning)
    return seen.source == ObservationSource::detector ? Strength::happened : Strength::echo;
  // Memory that was not there is not sure: the program asked for it.
  if (info.accuses == Accusation::sure && seen.fault != FaultClass::out_of_memory) return Strength::sure;
  if (seen.source == ObservationSource::health && seen.fault == FaultClass::gpu_program) return Strength::doubtful;
  switch (seen.fault) {
    case FaultClass::program:
    case FaultClass::interrupted:
    case FaultClass::lost: return Strength::bare;
    default: return Strength::happened;
  }
}

FaultRecord verdict_of(std::vector<Observation> seen, const std::vector<std::string>& hosts) {
  set_aside_kills_after_a_stop(seen);
  set_aside_storage(seen);
  std::stable_sort(seen.begin(), seen.end(),
                   [](const Observation& a, const Observation& b) { return verdict_key(a) < verdict_key(b); });
  FaultRecord record;
  if (seen.empty() || strength_of(seen.front()) == Strength::nothing) return record;
  const auto why = std::find_if(seen.begin() + 1, seen.end(),
                                [&](const Observation& other) { return explains(other, seen.front()); });
  if (why != seen.end()) std::rotate(seen.begin(), why, why + 1);
  const Observation& cause = seen.front();
  const FaultInfo& info = info_of(cause.fault);
  record.fault = cause.fault;
  record.scope = info.scope;
  record.severity = info.severity;
  record.cause = cause.what;
  record.fingerprint = fingerprint(cause.what, hosts);
  if (cause.widespread) {
    if (record.scope != FaultScope::user) record.scope = FaultScope::job;
  } else {
    record.rank = cause.rank;
    if (cause.rank < 0 && seen.size() > 1) record.rank = rank_on(seen, cause.host);
    if (strength_of(cause) != Strength::echo) record.host = cause.host;
  }
  for (const Observation& one : seen) {
    std::string line = format("{}: {}", to_string(one.source), one.what);
    if (std::find(record.evidence.begin(), record.evidence.end(), line) == record.evidence.end())
      record.evidence.push_back(std::move(line));
  }
  return record;
}

}  // namespace longhaul
