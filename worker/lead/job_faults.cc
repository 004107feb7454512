// What a lead makes of a launch that ended badly: the cause, the verdict of the policy, and what is done about it.
#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "resiliency/taxonomy/exit_class.h"
#include "resiliency/taxonomy/fault_class.h"
#include "resiliency/taxonomy/fault_table.h"
#include "resiliency/taxonomy/fingerprint.h"
#include "worker/lead/agents/heard_hosts.h"
#include "worker/lead/job_lead.h"
#include "worker/lead/monitor/rank_end.h"
#include "worker/lead/placement/rank_layout.h"

namespace longhaul {
namespace {

// Ranks with a fault that they survived wait so long for an order; then they end, and are started again.
constexpr std::int64_t restart_wait_ms = 10'000;
// A finding of a node so long before an end may be its cause: ranks end within moments, but their launcher may not.
constexpr std::int64_t health_window_ms = 30'000;

bool is_of_host(const GuardFinding& finding) {
  return finding.kind == GuardFinding::Kind::host_lost || finding.kind == GuardFinding::Kind::unhealthy;
}

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

}  // namespace

bool JobLead::go_on_after(const End& end) {
  Cause why = cause_of(end);
  const ExitStatus status = end_of_culprit(end.launch);
  record_.exit_code = status.code > 0 ? status.code : 0;
  record_.signal = status.signal;
  if (const auto corruption = corruption_of(end)) why = {silent_corruption_words + corruption->what, std::nullopt};
  std::string& cause = why.text;
  FaultView view = view_of(end, why);
  for (const Observation& found : found_on_hosts())
    if (view.fault == to_string(found.fault) && view.host == found.host && cause.find(found.what) == std::string::npos)
      cause += format("; on {}: {}", found.host, found.what);
  if (!no_agents_.empty()) cause += "; no agents: " + no_agents_;
  if (!end.finding) {
    const RankReport* culprit = watch_.rank(culprit_);
    recovery_.fault(clock_.monotonic_ns() / 1'000'000, culprit ? static_cast<double>(culprit->idle_ms) * 1e-3 : 0,
                    watch_.newest_step());
  }
  recovery_.stopped(clock_.monotonic_ns() / 1'000'000);
  leave_dead_spares();
  const bool were_alive = end.finding && end.finding->kind == GuardFinding::Kind::stuck_collective;
  view.all_ranks_alive = were_alive;  // until they were ended; the reason then says why they got no order
  TierOffer in_process = were_alive ? in_process_offer(*end.finding) : TierOffer{};
  if (in_process.offered) in_process = {false, "ranks that have ended cannot go on"};
  const TierDecision decision = decide_without_nodes_back(decide(view, in_process), view);
  report_fault(end, view, cause, decision);
  if (!launches_again(decision.tier)) {
    if (decision.tier == RestartTier::new_job) {
      // Before the scheduler knows of it: the next job does without them, and its program does not pay.
      const bool host_lost = end.finding && end.finding->kind == GuardFinding::Kind::host_lost;
      record_.ended_by = host_lost ? "host_lost" : "fault";
      for (const std::string& host : decision.hosts_to_leave) give_up(host, view, end);
    }
    if (view.group == FaultGroup::hopeless && end.finding) record_.exit_code = exit_no_retry, record_.signal = 0;
    fail(cause);
    return false;
  }
  for (const std::string& host : decision.hosts_to_leave) give_up(host, view, end);
  if (trial_.has_any_of(decision.hosts_to_leave)) trial_.over();
  if (decision.tier != RestartTier::shrink) return true;
  const Status fewer = shrink(lead_, hosts_);
  if (!fewer.ok()) fail(cause + "; " + fewer.error().message());
  return fewer.ok();
}

// Nothing is left to decide here: the scheduler takes the allocation, and the controller asks for another one, when it
// has heard from the scheduler why.
void JobLead::end_with_lost_host(const End& end) {
  if (file_exists(lead_.attempt.cancelled_path())) return;  // the run has asked for the end: no other job follows
  const Cause why = cause_of(end);
  const FaultView view = view_of(end, why);
  report_fault(end, view, why.text, {RestartTier::new_job, {view.host}, "the scheduler ends the job for it"});
  hosts_.lose(view.host);
  fail("told to stop (SIGTERM), after " + why.text);
}

// What was tried before the newest checkpoint uses up no budget; what speaks against a node goes on speaking.
TierDecision JobLead::decide(const FaultView& view, const TierOffer& in_process) {
  const ResiliencySettings& settings = lead_.attempt.resiliency;
  TierBudgets budgets;
  budgets.in_job = budgets.swap = settings.restarts;
  budgets.without_progress_max = std::max(1, settings.restarts) + 1;
  if (!settings.host_suspicion) budgets.lemon_faults = 1 << 30, budgets.floor_share = 0;
  if (view.saved_checkpoint) forgive(history_, view.at_ms, budgets);
  TierOffers can = offers(view);
  can.in_process = in_process;
  const TierDecision decision = decide_tier(view, history_, can, budgets);
  history_.push_back(past_restart(view, decision.tier));
  state_changed_ = true;
  return decision;
}

std::int64_t JobLead::restart_wait() const {
  const bool together = has_own_program(lead_.task) && lead_.task.resources.ranks > 1;
  return together && lead_.attempt.resiliency.restarts > 0 ? restart_wait_ms : 0;
}

std::optional<SilentCorruption> JobLead::corruption_of(const End& end) const {
  if (end.finding && end.finding->kind != GuardFinding::Kind::rank_ended &&
      end.finding->kind != GuardFinding::Kind::faulted)
    return std::nullopt;
  return told_.corruption(spec_.launch.launch);
}

// Ranks with a fault that they survived say so only where they wait for an order; those in a collective look for one if
// their program does.
TierOffer JobLead::in_process_offer(const GuardFinding& finding) const {
  if (finding.kind == GuardFinding::Kind::faulted) return {};
  if (finding.kind != GuardFinding::Kind::stuck_collective) return {false, "a rank does not hear orders"};
  if (restart_wait() == 0) return {false, "this program takes no orders to go on, or restarts is 0"};
  const Value* checkpoint = lead_.task.settings.find("checkpoint");
  if (checkpoint && !checkpoint->get_bool("in_process", true)) return {false, "checkpoint.in_process is false"};
  // MPI carries every communicator over the same connection of two hosts, and does not replace one that went silent.
  if (spec_.launch.hosts.size() > 1)
    return {false, "between hosts new communicators of MPI share the connections that are silent"};
  return {finding.no_order.empty(), finding.no_order};
}

// All processes live, and the ranks wait for an order, or in a collective that one ends: the cheapest restart, if the
// policy agrees.
bool JobLead::restart_in_process(const GuardFinding& finding) {
  const TierOffer offer = in_process_offer(finding);
  if (!offer.offered) return false;
  hear(tail_.look_now());
  const Cause why = cause_of_survived(finding);
  FaultView view = view_of({LaunchEnd{}, finding}, why);
  view.all_ranks_alive = static_cast<int>(watch_.alive().size()) == spec_.launch.ranks;
  const TierDecision decision = decide(view, offer);
  if (decision.tier != RestartTier::in_process) {
    history_.pop_back();  // decided again, and told, when they have ended
    return false;
  }
  report_fault({LaunchEnd{}, finding}, view, why.text, decision);
  told_.faults_decided();
  std::int64_t epoch = spec_.launch.epoch;
  for (const auto& [rank, report] : watch_.ranks()) epoch = std::max(epoch, report.beat.epoch);
  ++epoch;
  watch_.order_restart(epoch);
  if (agents_) agents_->restart(epoch);
  const std::int64_t now_ms = clock_.monotonic_ns() / 1'000'000;
  guard_.restarted(now_ms, epoch);
  if (finding.kind == GuardFinding::Kind::stuck_collective) restart_order_.given(now_ms, epoch, finding);
  recovery_.stopped(now_ms);
  recovery_.launched(spec_.launch.launch, spec_.launch.ranks);
  return true;
}

// A spare that died waiting takes nobody's place.
void JobLead::leave_dead_spares() {
  if (!agents_) return;
  for (const std::string& host : hosts_.spares()) {
    const AgentState& agent = agents_->agents().at(host);
    const double silent_s = static_cast<double>(clock_.monotonic_ns() - agent.heard_ns) * 1e-9;
    if (agent_comes(host)) continue;
    if (agent.connected && silent_s < lead_.attempt.resiliency.host_silent.value) continue;
    log_.warn("event=spare_lost host=" + host);
    hosts_.lose(host);
  }
}

// What was found wrong with the nodes of the launch just before it ended: an XID, an OOM kill.
std::vector<Observation> JobLead::found_on_hosts() const {
  std::vector<Observation> found = health_.health_seen(clock_.wall_ms() - health_window_ms);
  std::erase_if(found, [this](const Observation& one) {
    const FaultSeverity severity = info_of(one.fault).severity;
    const bool ended_it = severity == FaultSeverity::error || severity == FaultSeverity::fatal;
    const std::vector<std::string>& hosts = spec_.launch.hosts;
    return !ended_it || std::find(hosts.begin(), hosts.end(), one.host) == hosts.end();
  });
  for (Observation& one : found) one.at_ms = 0;  // ends have no time of the same clock
  return found;
}

// Of all that was observed, what is nearest to the cause.
FaultRecord JobLead::verdict(const End& end, const Cause& cause) const {
  JobRecord so_far = record_;
  so_far.outcome = "failed";
  so_far.cause = cause.text;
  const bool by_finding = end.finding && end.finding->kind != GuardFinding::Kind::rank_ended;
  const FaultClass ended = by_finding ? class_of(*end.finding) : classify_end(so_far, has_own_program(lead_.task));
  const bool of_host = by_finding && is_of_host(*end.finding);
  // Of a program in several steps nothing tells which rank of which host it was.
  const std::string host = of_host                                        ? end.finding->host
                           : culprit_ >= 0 && lead_.attempt.steps.empty() ? watch_.host_of(culprit_)
                                                                          : std::string();
  std::vector<Observation> seen;
  seen.push_back({by_finding ? ObservationSource::detector : ObservationSource::exit, ended, of_host ? -1 : culprit_,
                  host, cause.text});
  if (cause.root) {
    Observation log = observe_log(*cause.root);
    log.at_ms = 0;
    if (says_little(log.fault) && !says_little(ended)) log.fault = ended;  // the text of that end
    seen.push_back(std::move(log));
  }
  for (Observation& one : found_on_hosts()) seen.push_back(std::move(one));
  return verdict_of(std::move(seen), spec_.launch.hosts);
}

FaultView JobLead::view_of(const End& end, const Cause& cause) {
  FaultRecord record = verdict(end, cause);
  // What the ranks have found out together comes before what else was seen.
  const std::optional<SilentCorruption> corruption = corruption_of(end);
  if (corruption) {
    record.fault = corruption->decided ? FaultClass::silent_corruption : FaultClass::rerun_to_compare;
    record.scope = info_of(record.fault).scope;
    record.rank = culprit_ = corruption->rank;
    const bool accused = corruption->is_of_one_rank() && lead_.attempt.steps.empty();
    record.host = accused ? watch_.host_of(corruption->rank) : std::string();
  }
  // Ranks that wait for a file system are where it shows, and nobody's host is to blame.
  const bool of_storage = end.finding && end.finding->of_storage && record.fault == FaultClass::file_system;
  if (of_storage) record.host.clear();
  FaultView view;
  view.rank = record.rank;
  view.host = record.host;
  view.scope = record.scope;
  if (end.finding && is_of_host(*end.finding)) view.hosts_lost = {end.finding->host};
  for (const std::string& host : hosts_.left())
    if (std::find(spec_.launch.hosts.begin(), spec_.launch.hosts.end(), host) != spec_.launch.hosts.end())
      view.hosts_lost.push_back(host);  // its ranks would not end
  view.fault = to_string(record.fault);
  view.group = group_of(record.fault);
  if (end.finding) apply_settings(*end.finding, lead_.attempt.resiliency, view);
  // Its own for each node, whatever was found there.
  const bool of_host = end.finding && is_of_host(*end.finding);
  view.cause = of_host || view.scope == FaultScope::host ? format("{} {}", view.fault, view.host)
                                                         : fingerprint(cause.text, spec_.launch.hosts);
  if (corruption && !view.host.empty()) view.cause = format("{} {}", view.fault, view.host);
  // Where memory ran out its own budget says what is tried next, on which host.
  view.accuses = view.group == FaultGroup::memory || of_storage ? Accusation::never : info_of(record.fault).accuses;
  blame_nodes_back(view, end.finding);
  const EventFacts::Progress progress = told_.progress();
  view.made_progress = progress.further, view.saved_checkpoint = progress.checkpoint;
  view.recent = recent_goodput(end);
  view.at_ms = clock_.wall_ms();
  return view;
}

// Of a job whose steps its own node makes: not any more, once that one is gone.
bool JobLead::steps_can_be_made(const std::vector<std::string>& hosts_lost) const {
  const std::string& maker = lead_.job.step_maker;
  if (maker.empty() || !agents_) return true;
  const auto is_in = [&](const std::vector<std::string>& hosts) {
    return std::find(hosts.begin(), hosts.end(), maker) != hosts.end();
  };
  const bool accused = is_in(hosts_lost) || is_in(hosts_.left());
  const auto agent = agents_->agents().find(maker);
  return still_makes_steps(agent == agents_->agents().end() ? nullptr : &agent->second, agent_comes(maker), accused,
                           clock_.monotonic_ns());
}

TierOffers JobLead::offers(const FaultView& view) const {
  TierOffers offers;
  const ResiliencySettings& settings = lead_.attempt.resiliency;
  offers.skip = {false, "the training leaves steps out by itself"};
  offer_shrink(lead_, hosts_, view.hosts_lost, offers);
  if (settings.restarts == 0) offers.in_job = {false, "resiliency.restarts is 0"};
  offers.spares_left = static_cast<int>(hosts_.spares().size());
  if (offers.spares_left == 0)
    offers.swap = {false, settings.spares == 0 ? "the job has no spares" : "all spares are used"};
  if (settings.restarts == 0) offers.swap = offers.shrink = offers.in_job;
  if (!steps_can_be_made(view.hosts_lost))
    offers.in_job = offers.swap = offers.shrink = {
        false, format("node {} made the steps of this job (Slurm's stepmgr), and is gone", lead_.job.step_maker)};
  return offers;
}

void JobLead::report_fault(const End& end, const FaultView& view, const std::string& cause,
                           const TierDecision& decision) {
  FaultEvent event;
  event.launch = record_.launches;
  event.fault_class = view.fault;
  event.scope = to_string(view.scope);
  event.severity =
      decision.tier == RestartTier::stop ? "fatal" : to_string(info_of(fault_class_of(view.fault)).severity);
  event.rank = view.rank;
  event.host = view.host;
  event.step = watch_.newest_step();
  if (const RankReport* culprit = watch_.rank(culprit_)) event.section = culprit->beat.section;
  event.cause = cause;
  event.fingerprint = view.cause;
  event.tier = to_string(decision.tier);
  const bool again = launches_again(decision.tier);
  event.next = decision.tier == RestartTier::in_process ? "new communicators, same processes"
               : again                                  ? format("launch {}", record_.launches + 1)
                                                        : "record";
  if (again && !decision.hosts_to_leave.empty()) event.next += " without " + join(decision.hosts_to_leave, ", ");
  event.reason = decision.reason;
  if (end.finding) event.detect_s = end.finding->detect_s;
  told_.progress_judged();
  if (decision.below_floor) {
    WarningEvent floor;
    floor.kind = "goodput_floor", floor.fault_class = view.fault;
    floor.rank = view.rank, floor.host = view.host, floor.step = event.step;
    floor.text = format("{}: {}", event.tier, decision.reason);
    report_warning(std::move(floor));
  }
  events_.write(fault_event_kind, to_value(event));
  log_.warn(format("event=fault launch={} cause='{}' tier={} next='{}' reason='{}'", record_.launches, cause,
                   event.tier, event.next, decision.reason));
}

// Of a job on one host there is no other to go on with, and of a program that counts no steps nothing is known.
RecentGoodput JobLead::recent_goodput(const End& end) const {
  if (!goodput_ || !agents_) return {};
  const double detect_s = end.finding ? end.finding->detect_s : 0;
  return goodput_->at_fault(clock_.monotonic_ns() / 1'000'000, detect_s, watch_.newest_step());
}

JobLead::Cause JobLead::cause_of(const End& end) {
  if (!end.finding) return cause_of_launch(end.launch);
  const GuardFinding& finding = *end.finding;
  if (finding.kind == GuardFinding::Kind::faulted) return cause_of_survived(finding);
  if (finding.kind != GuardFinding::Kind::rank_ended) {  // whatever its ranks said while they were ended
    culprit_ = finding.rank;
    return {finding.cause, std::nullopt};
  }
  // The launcher and the logs may know more of the same end: a signal, a message. A rank that says why it ended did so
  // by itself, and the others were ended because of it; but who loses a killed one may complain in any words.
  Cause cause = cause_of_launch(end.launch);
  const bool by_itself = starts_with(finding.section, beat_failed);  // the launcher tells how the others were ended
  const bool killed = !by_itself && (end.launch.status.signal != 0 || end.launch.status.code > 128);
  const bool told = cause.root && !(killed && says_little(cause.root->finding.fault));
  if (culprit_ != finding.rank && !told) {
    culprit_ = finding.rank;
    cause = {finding.cause, std::nullopt};
    if (finding.step >= 0) cause.text += format(", in section {} at step {}", finding.section, finding.step);
  }
  return cause;
}

// Ranks that agree upon an error all have it, and say whose it is: the first to say so need not be that one.
JobLead::Cause JobLead::cause_of_survived(const GuardFinding& finding) {
  std::string what = told_.fault_of(finding.rank);
  const int blamed = blamed_rank(what);
  culprit_ = blamed >= 0 && blamed < spec_.launch.ranks ? blamed : finding.rank;
  if (what.empty()) return {finding.cause, std::nullopt};
  Cause cause{format("rank {} has a fault at step {} that all processes survived: {}", culprit_, finding.step, what),
              std::nullopt};
  const auto line = classify_line(what);
  if (!line || line->role != LineRole::root || says_little(line->fault)) return cause;
  LogRoot& root = cause.root.emplace();
  root.finding = *line;
  root.rank = culprit_, root.host = watch_.host_of(culprit_);
  root.line = std::move(what);
  return cause;
}

std::vector<RankLog> JobLead::rank_logs(int first, int ranks) const {
  std::vector<RankLog> logs;
  for (int rank = 0; rank < ranks; ++rank) {
    const RankReport* report = watch_.rank(first + rank);
    const bool ended = report && report->state == ProcessState::ended;
    logs.push_back({rank, watch_.host_of(first + rank), ended ? clock_.wall_ms() - report->idle_ms : 0});
  }
  return logs;
}

ExitStatus JobLead::end_of_culprit(const LaunchEnd& end) const {
  const RankReport* culprit = watch_.rank(culprit_);
  return culprit ? end_of_rank(culprit->beat.section, end.status) : end.status;
}

JobLead::Cause JobLead::cause_of_launch(const LaunchEnd& end) {
  const Attempt& attempt = lead_.attempt;
  bool by_launcher = !attempt.launcher.empty() || (lead_.task.resources.ranks > 1 && lead_.task.kind != "command");
  int ranks = spec_.launch.ranks, first = 0;  // of the program that ended
  std::string folder = spec_.launch.launch_dir;
  for (const JobStep& step : attempt.steps) {
    if (step.name == end.step) {
      ranks = step.ranks;
      folder = step_folder(folder, step.name);
      by_launcher = !step.launcher.empty();
      break;
    }
    first += step.ranks;
  }
  FailureLines said = by_launcher ? failure_lines_of_ranks(folder, rank_logs(first, ranks))
                                  : FailureLines{end.rank, failure_lines(rank_log_path(folder, end.rank)), {}};
  culprit_ = said.rank < 0 ? -1 : first + said.rank;
  if (said.root) said.root->rank = culprit_;
  const ExitStatus status = end_of_culprit(end);
  std::string cause =
      by_launcher ? "the ranks ended: " + status.text() : format("rank {} ended: {}", end.rank, status.text());
  if (!end.step.empty()) cause = "step " + end.step + ": " + cause;
  if (const RankReport* report = watch_.rank(culprit_); report && report->beat.step >= 0)
    cause += format(", in section {} at step {}", report->beat.section, report->beat.step);
  if (!said.text.empty()) cause += ": " + said.text;
  if (const Status room = try_to_write(); !room.ok() && cause.find(room.error().what) == std::string::npos)
    cause += ": " + room.error().message();
  return {cause, said.root};
}

// Where there is no room left, what a program said of it was not written either.
Status JobLead::try_to_write() const {
  const std::string path = join_path(spec_.launch.launch_dir, "room");
  const Status written = write_file_renamed(path, std::string(4096, '.'));
  (void)remove_tree(path).ok();
  return written;
}

}  // namespace longhaul
