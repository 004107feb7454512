#include "worker/lead/recovery/fault_diagnosis.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/files/files.h"
#include "base/text/text.h"
#include "resiliency/restart_decision.h"
#include "resiliency/taxonomy/exit_class.h"
#include "resiliency/taxonomy/fault_class.h"
#include "resiliency/taxonomy/fault_table.h"
#include "resiliency/taxonomy/fingerprint.h"
#include "resiliency/taxonomy/log_root.h"
#include "worker/lead/monitor/rank_end.h"
#include "worker/lead/recovery/failure_lines.h"

namespace longhaul {
namespace {

FaultClass class_of(const GuardFinding& finding) {
  switch (finding.kind) {
    case GuardFinding::Kind::host_lost: return FaultClass::host_unreachable;
    case GuardFinding::Kind::faulted: return FaultClass::exception;
    case GuardFinding::Kind::stuck_collective: return FaultClass::stuck_collective;
    case GuardFinding::Kind::unhealthy: return finding.fault;
    case GuardFinding::Kind::desynchronised: return FaultClass::desynchronised;
    case GuardFinding::Kind::no_progress: return FaultClass::no_progress;
    case GuardFinding::Kind::slow_rank: return FaultClass::slow_rank;
    case GuardFinding::Kind::bad_loss: return FaultClass::loss_nan;
    default: break;
  }
  if (finding.of_storage) return FaultClass::file_system;
  const bool frozen = is_held(finding.process) || finding.process == ProcessState::blocked;
  return frozen ? FaultClass::frozen : FaultClass::hang;
}

bool says_little(FaultClass fault) {
  return fault == FaultClass::program || fault == FaultClass::exception;
}

bool is_the_engine(const Task& task) {
  return task.kind != "command";
}

// The sentence, the line of a log that says it, if one does, and the rank that it speaks of.
struct Cause {
  std::string text;
  std::optional<LogRoot> root;
  int culprit = -1;
  std::vector<int> ended_first = {};  // ranks whose end srun reported before it ended the others
  std::string first_end = {};         // its line about the first
};

// Where there is no room left, what a program said of it was not written either.
Status try_to_write(const Launch& launch) {
  const std::string path = join_path(launch.launch_dir, "room");
  const Status written = write_file_renamed(path, std::string(4096, '.'));
  (void)remove_tree(path).ok();
  return written;
}

std::vector<RankLog> rank_logs(const FaultEvidence& seen, int first, int ranks) {
  std::vector<RankLog> logs;
  for (int rank = 0; rank < ranks; ++rank) {
    const RankReport* report = seen.ranks.rank(first + rank);
    const bool ended = report && report->state == ProcessState::ended;
    logs.push_back({rank, seen.ranks.host_of(first + rank), ended ? seen.now_ms - report->idle_ms : 0});
  }
  return logs;
}

ExitStatus end_of_culprit(const LaunchEnd& end, int culprit_rank, const FaultEvidence& seen) {
  const RankReport* culprit = seen.ranks.rank(culprit_rank);
  return culprit ? end_of_rank(culprit->beat.section, end.status) : end.status;
}

Cause cause_of_launch(const LaunchEnd& end, const FaultEvidence& seen) {
  const Attempt& attempt = seen.attempt;
  bool by_launcher = !attempt.launcher.empty() || (seen.task.resources.ranks > 1 && seen.task.kind != "command");
  int ranks = seen.launch.ranks, first = 0;  // of the program that ended
  std::string folder = seen.launch.launch_dir;
  for (const JobStep& step : attempt.steps) {
    if (step.name == end.step) {
      ranks = step.ranks;
      folder = step_folder(folder, step.name);
      by_launcher = !step.launcher.empty();
      break;
    }
    first += step.ranks;
  }
  FailureLines said = by_launcher ? failure_lines_of_ranks(folder, rank_logs(seen, first, ranks))
                                  : FailureLines{end.rank, failure_lines(rank_log_path(folder, end.rank)), {}, {}, {}};
  const int culprit = said.rank < 0 ? -1 : first + said.rank;
  if (said.root) said.root->rank = culprit;
  const ExitStatus status = end_of_culprit(end, culprit, seen);
  std::string cause =
      by_launcher ? "the ranks ended: " + status.text() : format("rank {} ended: {}", end.rank, status.text());
  if (!end.step.empty()) cause = "step " + end.step + ": " + cause;
  if (const RankReport* report = seen.ranks.rank(culprit); report && report->beat.step >= 0)
    cause += format(", in section {} at step {}", report->beat.section, report->beat.step);
  if (!said.text.empty()) cause += ": " + said.text;
  if (const Status room = try_to_write(seen.launch); !room.ok() && cause.find(room.error().what) == std::string::npos)
    cause += ": " + room.error().message();
  for (int& rank : said.ended_first) rank += first;
  return {cause, said.root, culprit, std::move(said.ended_first), std::move(said.first_end)};
}

// Ranks that agree upon an error all have it, and say whose it is: the first to say so need not be that one.
Cause cause_of_survived(const GuardFinding& finding, const FaultEvidence& seen) {
  std::string what = finding.said.empty() ? seen.events.fault_of(finding.rank) : finding.said;
  const int blamed = blamed_rank(what);
  const int culprit = blamed >= 0 && blamed < seen.launch.ranks ? blamed : finding.rank;
  if (what.empty()) return {finding.cause, std::nullopt, culprit};
  Cause cause{format("rank {} has a fault at step {} that all processes survived: {}", culprit, finding.step, what),
              std::nullopt, culprit};
  if (!finding.no_order.empty()) cause.text += "; " + finding.no_order;
  const auto line = classify_line(what);
  if (!line || line->role != LineRole::root || says_little(line->fault)) return cause;
  LogRoot& root = cause.root.emplace();
  root.finding = *line;
  root.rank = culprit, root.host = seen.ranks.host_of(culprit);
  root.line = std::move(what);
  return cause;
}

// Of a launch that srun has ended because of the rank that it names first.
Cause named_by_srun(const Cause& cause, const FaultEvidence& seen) {
  const int rank = cause.ended_first.front();
  std::string text = format("the process of rank {} on {} has ended", rank, seen.ranks.host_of(rank));
  if (const RankReport* report = seen.ranks.rank(rank); report && report->beat.step >= 0)
    text += format(", in section {} at step {}", report->beat.section, report->beat.step);
  return {text + ": " + cause.first_end, std::nullopt, rank};
}

Cause cause_of(const LaunchOutcome& end, const FaultEvidence& seen) {
  if (!end.finding) return cause_of_launch(end.launch, seen);
  const GuardFinding& finding = *end.finding;
  if (finding.kind == GuardFinding::Kind::faulted) return cause_of_survived(finding, seen);
  if (finding.kind != GuardFinding::Kind::rank_ended)  // whatever its ranks said while they were ended
    return {finding.cause, std::nullopt, finding.rank};
  // The launcher and the logs may know more of the same end: a signal, a message. A rank that says why it ended did so
  // by itself, and the others were ended because of it; but who loses a killed one may complain in any way.
  Cause cause = cause_of_launch(end.launch, seen);
  const bool by_itself = starts_with(finding.section, beat_failed);  // the launcher reports how the others were ended
  const bool killed = !by_itself && (end.launch.status.signal != 0 || end.launch.status.code > 128);
  const bool explained = cause.root && !(killed && says_little(cause.root->finding.fault));
  if (cause.culprit == finding.rank || explained) return cause;
  // An agent may be silent while its ranks end, and others are seen to have ended before: those that srun has ended.
  const std::vector<int>& first = cause.ended_first;
  const bool lost_before = !first.empty() && std::ranges::find(first, finding.rank) == first.end();
  if (lost_before && first.front() < seen.launch.ranks) return named_by_srun(cause, seen);
  cause = {finding.cause, std::nullopt, finding.rank};
  if (finding.step >= 0) cause.text += format(", in section {} at step {}", finding.section, finding.step);
  return cause;
}

// What the ranks have found out together, where this fault is that.
std::optional<SilentCorruption> corruption_of(const LaunchOutcome& end, const FaultEvidence& seen) {
  if (end.finding && end.finding->kind != GuardFinding::Kind::rank_ended &&
      end.finding->kind != GuardFinding::Kind::faulted)
    return std::nullopt;
  return seen.events.corruption(seen.launch.launch);
}

// Of all that was observed, what is nearest to the cause.
FaultRecord verdict(const LaunchOutcome& end, const Cause& cause, const ExitStatus& status, const FaultEvidence& seen) {
  JobRecord so_far = seen.record;
  so_far.outcome = "failed";
  so_far.cause = cause.text;
  so_far.exit_code = std::max(0, status.code), so_far.signal = status.signal;
  const bool by_finding = end.finding && end.finding->kind != GuardFinding::Kind::rank_ended;
  const FaultClass ended = by_finding ? class_of(*end.finding) : classify_end(so_far, is_the_engine(seen.task));
  const bool of_host = by_finding && is_of_host(*end.finding);
  // Of a program in several steps it is not known which rank of which host it was.
  const std::string host = of_host                                            ? end.finding->host
                           : cause.culprit >= 0 && seen.attempt.steps.empty() ? seen.ranks.host_of(cause.culprit)
                                                                              : std::string();
  std::vector<Observation> found;
  found.push_back({by_finding ? ObservationSource::detector : ObservationSource::exit, ended,
                   of_host ? -1 : cause.culprit, host, cause.text});
  if (cause.root) {
    Observation log = observe_log(*cause.root);
    log.at_ms = 0;
    if (says_little(log.fault) && !says_little(ended)) log.fault = ended;  // the text of that end
    found.push_back(std::move(log));
  }
  found.insert(found.end(), seen.of_hosts.begin(), seen.of_hosts.end());
  return verdict_of(std::move(found), seen.launch.hosts);
}

// The storage that nodes share is at fault, and none of them: ranks waited for it, or several nodes found it silent.
bool is_of_shared_storage(const FaultRecord& record, const LaunchOutcome& end, const FaultEvidence& seen) {
  if (record.fault != FaultClass::file_system) return false;
  if (end.finding && end.finding->of_storage) return true;
  std::set<std::string> hosts;
  for (const Observation& one : seen.of_hosts)
    if (one.fault == FaultClass::file_system) hosts.insert(one.host);
  return hosts.size() > 1;
}

Diagnosis diagnosis_of(const LaunchOutcome& end, const Cause& cause, const std::optional<SilentCorruption>& corruption,
                       const ExitStatus& status, const FaultEvidence& seen) {
  FaultRecord record = verdict(end, cause, status, seen);
  int culprit = cause.culprit;
  // What the ranks have found out together comes before what else was seen.
  if (corruption) {
    record.fault = corruption->decided ? FaultClass::silent_corruption : FaultClass::rerun_to_compare;
    record.scope = info_of(record.fault).scope;
    record.rank = culprit = corruption->rank;
    const bool accused = corruption->is_of_one_rank() && seen.attempt.steps.empty();
    record.host = accused ? seen.ranks.host_of(corruption->rank) : std::string();
  }
  DiagnosedFault found{.fault = record.fault, .scope = record.scope, .rank = record.rank, .host = record.host};
  found.cause = fingerprint(cause.text, seen.launch.hosts);
  if (end.finding && is_of_host(*end.finding)) found.host_lost = end.finding->host;
  if (end.finding && end.finding->kind == GuardFinding::Kind::slow_rank) found.slow_host = end.finding->host;
  found.bad_loss = end.finding && end.finding->kind == GuardFinding::Kind::bad_loss;
  found.of_shared_storage = is_of_shared_storage(record, end, seen);
  found.of_sums = corruption.has_value();
  found.at_ms = seen.now_ms;
  FaultView view = view_of(found, seen.attempt.resiliency);
  for (const std::string& host : seen.hosts_left)
    if (std::find(seen.launch.hosts.begin(), seen.launch.hosts.end(), host) != seen.launch.hosts.end())
      view.hosts_lost.push_back(host);  // its ranks would not end
  return {cause.text, culprit, status, std::move(view)};
}

}  // namespace

bool is_of_host(const GuardFinding& finding) {
  return finding.kind == GuardFinding::Kind::host_lost || finding.kind == GuardFinding::Kind::unhealthy;
}

Diagnosis diagnose(const LaunchOutcome& end, const FaultEvidence& evidence) {
  Cause cause = cause_of(end, evidence);
  const ExitStatus status = end_of_culprit(end.launch, cause.culprit, evidence);
  const auto corruption = corruption_of(end, evidence);
  if (corruption) cause.text = silent_corruption_prefix + corruption->what, cause.root.reset();
  return diagnosis_of(end, cause, corruption, status, evidence);
}

Diagnosis diagnose_survived(const GuardFinding& finding, const FaultEvidence& evidence) {
  const LaunchOutcome end{LaunchEnd{}, finding};
  const Cause cause = cause_of_survived(finding, evidence);
  return diagnosis_of(end, cause, corruption_of(end, evidence), ExitStatus{}, evidence);
}

GuardFinding with_what_was_said(GuardFinding finding, const EventFacts& events) {
  if (finding.kind == GuardFinding::Kind::faulted) finding.said = events.fault_of(finding.rank);
  return finding;
}

}  // namespace longhaul
