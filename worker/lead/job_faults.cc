// What a lead makes of a launch that ended badly: the cause, the verdict of the policy, and what is done about it.
#include <algorithm>

#include "base/files.h"
#include "base/text.h"
#include "resiliency/fault_class.h"
#include "worker/lead/job_lead.h"
#include "worker/lead/last_words.h"

namespace longhaul {
namespace {

// Classes that the user's own input, settings or program are to blame for.
FaultScope scope_of(FaultClass fault) {
  switch (fault) {
    case FaultClass::bad_input:
    case FaultClass::program: return FaultScope::user;
    case FaultClass::disk_full:
    case FaultClass::time_limit: return FaultScope::job;
    default: return FaultScope::rank;
  }
}

}  // namespace

bool JobLead::go_on_after(const End& end) {
  record_.exit_code = end.launch.status.code > 0 ? end.launch.status.code : 0;
  record_.signal = end.launch.status.signal;
  const std::string cause = cause_of(end);
  const FaultView view = view_of(end, cause);
  if (!end.finding) {
    const RankReport* culprit = watch_.rank(culprit_);
    recovery_.fault(clock_.monotonic_ns() / 1'000'000, culprit ? static_cast<double>(culprit->idle_ms) * 1e-3 : 0,
                    watch_.newest_step());
  }
  recovery_.stopped(clock_.monotonic_ns() / 1'000'000);
  TierBudgets budgets;
  budgets.in_job = budgets.swap = lead_.attempt.resiliency.restarts;
  budgets.without_progress_max = std::max(1, lead_.attempt.resiliency.restarts) + 1;
  budgets.lemon_faults = lead_.attempt.resiliency.host_suspicion ? budgets.lemon_faults : 1 << 30;
  leave_dead_spares();
  const TierDecision decision = decide_tier(view, history_, offers(), budgets);
  history_.push_back({view.at_ms, view.cause, view.scope, view.host, view.made_progress, decision.tier});
  const bool again = decision.tier == RestartTier::in_job || decision.tier == RestartTier::swap;
  tell_fault(end, view, cause, decision);
  if (!again) {
    if (decision.tier == RestartTier::new_job) record_.ended_by = "fault";
    fail(cause);
    return false;
  }
  for (const std::string& host : decision.hosts_to_leave) hosts_.leave(host);
  return true;
}

// A spare that died waiting takes nobody's place.
void JobLead::leave_dead_spares() {
  if (!agents_) return;
  for (const std::string& host : hosts_.spares()) {
    const AgentState& agent = agents_->agents().at(host);
    const double silent_s = static_cast<double>(clock_.monotonic_ns() - agent.heard_ns) * 1e-9;
    if (agent.connected && silent_s < lead_.attempt.resiliency.host_silent.value) continue;
    log_.warn("event=spare_lost host=" + host);
    hosts_.leave(host);
  }
}

FaultView JobLead::view_of(const End& end, const std::string& cause) {
  JobRecord so_far = record_;
  so_far.outcome = "failed";
  so_far.cause = cause;
  FaultClass fault = classify_end(so_far, lead_.task.kind != "command");
  FaultView view;
  view.rank = culprit_;
  view.scope = scope_of(fault);
  if (end.finding && end.finding->kind == GuardFinding::Kind::host_lost) {
    fault = FaultClass::node_fail;
    view.scope = FaultScope::host;
    view.rank = -1;
    view.host = end.finding->host;
    view.hosts_lost = {end.finding->host};
  } else if (culprit_ >= 0 && lead_.attempt.steps.empty()) {
    view.host = watch_.host_of(culprit_);
  }
  for (const std::string& host : hosts_.left())
    if (std::find(spec_.launch.hosts.begin(), spec_.launch.hosts.end(), host) != spec_.launch.hosts.end())
      view.hosts_lost.push_back(host);  // its ranks would not end
  view.fault = to_string(fault);
  view.group = group_of(fault);
  if (end.finding && end.finding->kind == GuardFinding::Kind::hang) {
    view.fault = "hang";
    view.group = FaultGroup::infrastructure;
  }
  view.cause = format("{} {}", view.fault, view.scope == FaultScope::host ? view.host : cause);
  view.made_progress = saved_more();
  view.at_ms = clock_.wall_ms();
  return view;
}

TierOffers JobLead::offers() const {
  TierOffers offers;
  const ResiliencySettings& settings = lead_.attempt.resiliency;
  offers.skip = {false, "the training leaves steps out by itself"};
  offers.in_process = {false, "ranks that have ended cannot go on"};
  offers.shrink = {false, "a training keeps its number of replicas"};
  if (settings.restarts == 0) offers.in_job = {false, "resiliency.restarts is 0"};
  offers.spares_left = static_cast<int>(hosts_.spares().size());
  if (offers.spares_left == 0)
    offers.swap = {false, settings.spares == 0 ? "the job has no spares" : "all spares are used"};
  if (settings.restarts == 0) offers.swap = offers.in_job;
  return offers;
}

void JobLead::tell_fault(const End& end, const FaultView& view, const std::string& cause,
                         const TierDecision& decision) {
  FaultEvent event;
  event.launch = record_.launches;
  event.fault_class = view.fault;
  event.scope = to_string(view.scope);
  event.severity = decision.tier == RestartTier::stop ? "fatal" : "error";
  event.rank = view.rank;
  event.host = view.host;
  event.step = watch_.newest_step();
  if (const RankReport* culprit = watch_.rank(culprit_)) event.section = culprit->beat.section;
  event.cause = cause;
  event.fingerprint = view.cause;
  event.tier = to_string(decision.tier);
  const bool again = decision.tier == RestartTier::in_job || decision.tier == RestartTier::swap;
  event.next = again ? format("launch {}", record_.launches + 1) : std::string("record");
  if (again && !decision.hosts_to_leave.empty()) event.next += " without " + join(decision.hosts_to_leave, ", ");
  event.reason = decision.reason;
  if (end.finding) event.detect_s = end.finding->detect_s;
  events_.write(fault_event_kind, to_value(event));
  log_.warn(format("event=launch_failed launch={} cause='{}' tier={} next='{}' reason='{}'", record_.launches, cause,
                   event.tier, event.next, decision.reason));
}

// A newer checkpoint than at the fault before: whoever gets further is not running in circles.
bool JobLead::saved_more() {
  std::uint64_t offset = 0;
  const auto events = read_events(lead_.attempt.events_path(), offset);
  if (!events.ok()) return false;
  std::int64_t newest = saved_step_;
  for (const Event& event : *events)
    if (event.kind == "checkpoint" || event.kind == "local_copy")
      newest = std::max(newest, event.fields.get_integer("step", -1));
  const bool more = newest > saved_step_;
  saved_step_ = newest;
  return more;
}

std::string JobLead::cause_of(const End& end) {
  if (!end.finding) return cause_of_launch(end.launch);
  const GuardFinding& finding = *end.finding;
  if (finding.kind != GuardFinding::Kind::rank_ended) {  // whatever its ranks said while they were ended
    culprit_ = finding.rank;
    return finding.cause;
  }
  // The launcher and the logs may know more of the same end: a signal, a message.
  std::string cause = cause_of_launch(end.launch);
  if (culprit_ != finding.rank) {
    culprit_ = finding.rank;
    cause = finding.cause;
    if (finding.step >= 0) cause += format(", in section {} at step {}", finding.section, finding.step);
  }
  return cause;
}

std::string JobLead::cause_of_launch(const LaunchEnd& end) {
  const Attempt& attempt = lead_.attempt;
  bool by_launcher = !attempt.launcher.empty() || (lead_.task.resources.ranks > 1 && lead_.task.kind != "command");
  int ranks = lead_.task.resources.ranks, first = 0;  // of the program that ended
  std::string folder = spec_.launch.launch_dir;
  for (const JobStep& step : attempt.steps) {
    if (step.name == end.step) {
      folder = step_folder(folder, step.name);
      ranks = step.ranks;
      by_launcher = !step.launcher.empty();
      break;
    }
    first += step.ranks;
  }
  const LastWords said = by_launcher ? last_words_of_ranks(folder, ranks)
                                     : LastWords{end.rank, last_words(rank_log_path(folder, end.rank))};
  culprit_ = first + said.rank;
  std::string cause =
      by_launcher ? "the ranks ended: " + end.status.text() : format("rank {} ended: {}", end.rank, end.status.text());
  if (!end.step.empty()) cause = "step " + end.step + ": " + cause;
  if (const RankReport* report = watch_.rank(culprit_); report && report->beat.step >= 0)
    cause += format(", in section {} at step {}", report->beat.section, report->beat.step);
  if (!said.text.empty()) cause += ": " + said.text;
  if (const Status room = try_to_write(); !room.ok() && cause.find(room.error().what) == std::string::npos)
    cause += ": " + room.error().message();
  return cause;
}

// Where there is no room left, what a program said of it was not written either.
Status JobLead::try_to_write() const {
  const std::string path = join_path(spec_.launch.launch_dir, "room");
  const Status written = write_file_renamed(path, std::string(4096, '.'));
  (void)remove_tree(path).ok();
  return written;
}

}  // namespace longhaul
