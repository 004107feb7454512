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
#include "worker/lead/placement/rank_layout.h"

namespace longhaul {
namespace {

// Ranks with a fault that they survived wait so long for an order; then they end, and are started again.
constexpr std::int64_t restart_wait_ms = 10'000;
// A finding of a node so long before an end may be its cause: ranks end within moments, but their launcher may not.
constexpr std::int64_t health_window_ms = 30'000;

// Trying again cures nothing: the record says so, by the exit code of the ranks where that does, else by one of ours.
void say_hopeless(const Task& task, JobRecord& record) {
  const FaultClass by_code = class_of_exit_code(record.exit_code, has_own_program(task));
  if (record.signal == 0 && group_of(by_code) == FaultGroup::hopeless) return;
  record.exit_code = exit_no_retry, record.signal = 0;
}

}  // namespace

bool JobLead::go_on_after(const LaunchOutcome& end) {
  Diagnosis found = diagnose(end, evidence());
  record_.exit_code = found.status.code > 0 ? found.status.code : 0;
  record_.signal = found.status.signal;
  add_history_of_job(found.view, end.finding);
  for (const Observation& one : found_on_hosts())
    if (found.view.fault == to_string(one.fault) && found.view.host == one.host &&
        found.cause.find(one.what) == std::string::npos)
      found.cause += format("; on {}: {}", one.host, one.what);
  if (!no_agents_.empty()) found.cause += "; no agents: " + no_agents_;
  if (!end.finding) {
    const RankReport* culprit = watch_.rank(found.culprit);
    recovery_.fault(clock_.monotonic_ns() / 1'000'000, culprit ? static_cast<double>(culprit->idle_ms) * 1e-3 : 0,
                    watch_.newest_step());
  }
  recovery_.stopped(clock_.monotonic_ns() / 1'000'000);
  leave_dead_spares();
  const bool were_alive = end.finding && end.finding->kind == GuardFinding::Kind::stuck_collective;
  found.view.all_ranks_alive = were_alive;  // until they were ended; the reason then says why they got no order
  TierOffer in_process = were_alive ? in_process_offer(*end.finding) : TierOffer{};
  if (in_process.offered) in_process = {false, "ranks that have ended cannot go on"};
  const RecoveryPlan plan = plan_relaunch(found.view, recovery_input(in_process));
  found.view = plan.fault;
  keep_history(plan);
  report_fault(end, found, plan.decision);
  return carry_out(plan, end, found.cause);
}

// Whether another launch follows; the nodes for it are chosen then.
bool JobLead::carry_out(const RecoveryPlan& plan, const LaunchOutcome& end, const std::string& cause) {
  const TierDecision& decision = plan.decision;
  if (!launches_again(decision.tier)) {
    if (decision.tier == RestartTier::new_job) {
      // Before the scheduler knows of it: the next job does without them, and its program does not pay.
      const bool host_lost = end.finding && end.finding->kind == GuardFinding::Kind::host_lost;
      record_.ended_by = host_lost ? "host_lost" : "fault";
      for (const std::string& host : decision.hosts_to_leave) give_up(host, plan.fault, end);
    }
    if (plan.fault.group == FaultGroup::hopeless && end.finding) say_hopeless(lead_.task, record_);
    fail(cause);
    return false;
  }
  for (const std::string& host : decision.hosts_to_leave) give_up(host, plan.fault, end);
  if (trial_.has_any_of(decision.hosts_to_leave)) trial_.over();
  if (decision.tier != RestartTier::shrink) return true;
  const Status fewer = shrink(lead_, hosts_);
  if (!fewer.ok()) fail(cause + "; " + fewer.error().message());
  return fewer.ok();
}

FaultEvidence JobLead::evidence() const {
  return {lead_.attempt, lead_.task,       spec_.launch,  watch_,          event_facts_,
          record_,       found_on_hosts(), hosts_.left(), clock_.wall_ms()};
}

RecoveryInput JobLead::recovery_input(const TierOffer& in_process) const {
  const std::string maker = agents_ ? lead_.job.step_maker : std::string();
  const bool gone = !steps_can_be_made(false), gone_if_lost = !steps_can_be_made(true);
  return {lead_, hosts_, history_, trial_, maker, gone, gone_if_lost, watch_.newest_step() >= 0, in_process};
}

void JobLead::keep_history(const RecoveryPlan& plan) {
  history_ = plan.history;
  leadership_.note_change();
}

// What the job has made since the fault before, and whether the nodes on trial are at fault.
void JobLead::add_history_of_job(FaultView& view, const std::optional<GuardFinding>& finding) const {
  blame_nodes_back(view, finding);
  const EventFacts::Progress progress = event_facts_.progress();
  view.made_progress = progress.further, view.saved_checkpoint = progress.checkpoint;
  view.recent = recent_goodput(finding);
}

// Nothing is left to decide here: the scheduler takes the allocation, and the controller asks for another one, when it
// knows the reason from the scheduler.
void JobLead::end_with_lost_host(const LaunchOutcome& end) {
  if (file_exists(lead_.attempt.cancelled_path())) return;  // the run has asked for the end: no other job follows
  Diagnosis found = diagnose(end, evidence());
  add_history_of_job(found.view, end.finding);
  const std::string& host = found.view.host;
  report_fault(end, found, {RestartTier::new_job, {host}, "the scheduler ends the job for it"});
  hosts_.lose(host);
  fail("asked to stop (SIGTERM), after " + found.cause);
}

std::int64_t JobLead::restart_wait() const {
  const bool together = has_own_program(lead_.task) && lead_.task.resources.ranks > 1;
  return together && lead_.attempt.resiliency.restarts > 0 ? restart_wait_ms : 0;
}

// Ranks with a fault that they survived say so only where they wait for an order; those in a collective look for one if
// their program does.
TierOffer JobLead::in_process_offer(const GuardFinding& finding) const {
  if (finding.kind == GuardFinding::Kind::faulted) return {finding.no_order.empty(), finding.no_order};
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
  Diagnosis found = diagnose_survived(finding, evidence());
  add_history_of_job(found.view, finding);
  found.view.all_ranks_alive = static_cast<int>(watch_.alive().size()) == spec_.launch.ranks;
  const RecoveryPlan plan = plan_recovery(found.view, recovery_input(offer));
  if (plan.decision.tier != RestartTier::in_process) return false;  // decided again, and reported, when they have ended
  keep_history(plan);
  report_fault({LaunchEnd{}, finding}, found, plan.decision);
  std::int64_t epoch = spec_.launch.epoch;
  for (const auto& [rank, report] : watch_.ranks()) epoch = std::max(epoch, report.beat.epoch);
  ++epoch;
  watch_.order_restart(epoch);
  if (agents_) agents_->restart(epoch);
  const std::int64_t now_ms = clock_.monotonic_ns() / 1'000'000;
  guard_.restarted(now_ms, epoch);
  restart_order_.given(now_ms, epoch, with_what_was_said(finding, event_facts_));
  event_facts_.faults_decided();
  recovery_.stopped(now_ms);
  recovery_.launched(spec_.launch.launch, spec_.launch.ranks, epoch);
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

// Of a job whose steps its own node makes: not any more, once that one is gone.
bool JobLead::steps_can_be_made(bool accused) const {
  const std::string& maker = lead_.job.step_maker;
  if (maker.empty() || !agents_) return true;
  const std::vector<std::string> left = hosts_.left();
  accused = accused || std::find(left.begin(), left.end(), maker) != left.end();
  const auto agent = agents_->agents().find(maker);
  return still_makes_steps(agent == agents_->agents().end() ? nullptr : &agent->second, agent_comes(maker), accused,
                           clock_.monotonic_ns());
}

void JobLead::report_fault(const LaunchOutcome& end, const Diagnosis& found, const TierDecision& decision) {
  const FaultView& view = found.view;
  const std::string& cause = found.cause;
  FaultEvent event;
  event.launch = record_.launches;
  event.fault_class = view.fault;
  event.scope = to_string(view.scope);
  event.severity =
      decision.tier == RestartTier::stop ? "fatal" : to_string(info_of(fault_class_of(view.fault)).severity);
  event.rank = view.rank;
  event.host = view.host;
  event.step = watch_.newest_step();
  if (const RankReport* culprit = watch_.rank(found.culprit)) event.section = culprit->beat.section;
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
  event_facts_.progress_judged();
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
RecentGoodput JobLead::recent_goodput(const std::optional<GuardFinding>& finding) const {
  if (!goodput_ || !agents_) return {};
  const double detect_s = finding ? finding->detect_s : 0;
  return goodput_->at_fault(clock_.monotonic_ns() / 1'000'000, detect_s, watch_.newest_step());
}

}  // namespace longhaul
