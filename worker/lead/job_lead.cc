#include "worker/lead/job_lead.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/files/file_query.h"
#include "base/files/file_retry.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/records/host_list.h"
#include "worker/lead/failover/stop_signal.h"
#include "worker/lead/placement/lead_ways.h"
#include "worker/lead/placement/leftovers.h"
#include "worker/lead/placement/staging.h"
#include "worker/lead/publish.h"
#include "worker/lead/recovery/saved_before.h"

namespace longhaul {
namespace {

constexpr std::int64_t agents_end_ms = 2'000;

}  // namespace

JobLead::JobLead(Attempt attempt, std::string worker_program, AllocationInfo job, NextRound& rounds, Clock& clock,
                 Logger& log)
    : lead_{std::move(attempt), {}, std::move(job), std::move(worker_program)},
      rounds_(rounds),
      clock_(clock),
      log_(log),
      events_(clock, lead_.attempt.events_path(), 0),
      orders_(lead_.attempt.stage_dir, clock, events_),
      watch_(clock),
      first_rank_(watch_),
      beat_sockets_(log),
      stacks_(lead_.worker_program, clock),
      guard_(lead_.attempt.resiliency, true),
      tail_(clock),
      training_(lead_.attempt.resiliency),
      unwatched_gpus_(lead_.attempt.gpus_per_node),
      deadline_(lead_.job.scheduler_job, clock, log),
      leadership_(own_node(), lead_.job.scheduler_job, clock, log) {}

void JobLead::describe(std::int64_t started_ms) {
  started_ms_ = started_ms;
  const std::int64_t begun_ns =
      clock_.monotonic_ns() - std::max<std::int64_t>(0, clock_.wall_ms() - started_ms) * 1'000'000;
  deadline_.begin(begun_ns, lead_.attempt.grace_s, own_node());
  record_.key = lead_.attempt.key;
  record_.attempt = lead_.attempt.attempt;
  record_.host = host_name();
  record_.started_ms = started_ms;
  record_.scheduler_job = lead_.job.scheduler_job;
  record_.restarts = lead_.job.restarts;
  record_.nodes = lead_.job.nodes;
}

JobRecord JobLead::run(std::int64_t started_ms) {
  describe(started_ms);
  batch_host_ = own_node();
  // In a former life of the job. Where that is not known, nothing is begun.
  const auto cancelled = retried(FileRetry{}, [this] { return is_there(lead_.attempt.cancelled_path()); });
  cancelled_ = cancelled.ok() && *cancelled;
  if (cancelled_) fail("cancelled before it began");
  const Status status = !cancelled.ok() ? Status(cancelled.error()) : cancelled_ ? Status() : lead_to_artifact();
  if (!status.ok()) fail(status.error().message());
  return record_of_end();
}

JobRecord JobLead::record_of_end() {
  record_.nodes_left = hosts_.left();
  record_.saved_step = event_facts_.whole_step();
  std::erase_if(record_.nodes_left, [this](const std::string& host) { return left_unaccused_.contains(host); });
  return record_;
}

JobRecord JobLead::take_over(const LeadState& state, std::unique_ptr<AgentTable> agents, SchedulerVote vote) {
  leadership_.take_over(std::move(vote));
  describe(state.started_ms);
  batch_host_ = state.lead_host;
  record_.launches = state.launch.launch - 1;
  record_.step = state.step;
  hosts_ = state.hosts;
  history_ = state.history;
  trial_ = state.trial;
  seen_ = state.seen;
  goodput_ = state.goodput;
  taken_over_ = state.launch;
  lost_lead_ns_ = state.lost.since_ns;
  deadline_.take_over(state.end_by_ns);
  agents_ = std::move(agents);
  Status status = prepare();
  event_facts_.set_judged(state.judged);
  if (status.ok()) status = launch_and_publish();
  if (!status.ok()) fail(status.error().message());
  return record_of_end();
}

std::string JobLead::own_node() const {
  return lead_.job.node.empty() ? host_name() : lead_.job.node;
}

void JobLead::fail(const std::string& cause) {
  if (record_.outcome.empty()) record_.outcome = cancelled_ ? "cancelled" : "failed";
  if (record_.cause.empty()) record_.cause = cause;
}

Status JobLead::prepare() {
  const Attempt& attempt = lead_.attempt;
  LH_TRY(lead_.task, read_task(attempt.task_path));
  lead_.attempt.resiliency = resiliency_for(attempt.resiliency, lead_.task.kind);
  if (attempt.faults.allowed) {
    injector_.emplace(attempt.faults, lead_.task.resources.ranks, attempt.stage_dir, clock_, events_, log_);
    LH_CHECK(injector_->begin());
  }
  LearnedTimes learned;
  if (const auto kept = read_file(learned_path()); kept.ok())
    if (const auto value = parse_json(*kept); value.ok())
      if (auto times = LearnedTimes::from_value(*value); times.ok()) learned = std::move(*times);
  if (lead_.attempt.resiliency.checkpoint_interval == "online")
    interval_.emplace(lead_.task.resources.nodes, set_interval_steps(lead_.task.settings) > 0, clock_, events_, log_);
  timeouts_.emplace(attempt, lead_.task.kind);
  timeouts_->take(learned);
  if (deadline_.is_known())
    pass_on_end_time();  // the scheduler may take a second to answer, and ranks wait for who takes over
  else
    ask_end_time();
  guard_ = LaunchGuard(attempt.resiliency, has_own_program(lead_.task), std::move(learned));
  training_ = TrainingWatch(attempt.resiliency);
  growth_ = GrowBack(attempt.resiliency.grow_after.value);
  skipped_ = SkippedSteps(lead_.task.settings);
  go_on_from(seen_);
  return {};
}

// What earlier leads of this attempt have written as events, of another life of the job or of this one: all of
// them, a piece at a time, or those since the place that `seen` knows.
void JobLead::go_on_from(const Value& seen) {
  const auto part = [&](const char* name) {
    const Value* found = seen.find(name);
    return found ? *found : Value::make_table();
  };
  event_facts_ = EventFacts::of(part("facts"));
  if (!seen.find("facts")) event_facts_.begin_with(step_left_by_earlier(lead_.attempt, lead_.job.restarts));
  skipped_.go_on_from(part("skipped"));
  if (const Value* growth = seen.find("growth"); growth && growth->is_array())
    for (const Value& host : growth->as_array()) recorded_growth_.push_back(host.is_string() ? host.as_string() : "");
  const auto offset = static_cast<std::uint64_t>(std::max<std::int64_t>(0, seen.get_integer("offset")));
  tail_.open(lead_.attempt.events_path(), offset, [&](const std::vector<Event>& events) {
    event_facts_.take(events);
    timeouts_->take(events);
    skipped_.take(events);
    note_growth(events);
  });
  event_facts_.progress_judged();  // whoever begins has made no progress yet
  log_.info(format("event=events_read from={} bytes={}", offset, tail_.bytes_read()));
}

Value JobLead::seen() const {
  Value value = Value::make_table(), growth = Value::make_array();
  for (const std::string& host : recorded_growth_) growth.push_back(host);
  value.set("offset", static_cast<std::int64_t>(tail_.offset()));
  value.set("facts", event_facts_.snapshot());
  value.set("skipped", skipped_.snapshot());
  value.set("growth", std::move(growth));
  return value;
}

Status JobLead::lead_to_artifact() {
  const Attempt& attempt = lead_.attempt;
  LH_CHECK(prepare());
  const auto earlier = retried({}, [&] { return published_artifact(attempt, lead_.task); });
  if (earlier.ok()) return succeed("published by an earlier attempt");
  if (earlier.error().code != ErrorCode::not_found) return earlier.error();
  LH_CHECK(clear_earlier_attempts(attempt, clock_));
  LH_CHECK(make_directories(attempt.state_dir()));
  LH_TRY(hosts_, host_pool_of(lead_));
  bring_agents();
  report_step_maker();
  preflight();
  return launch_and_publish();
}

Status JobLead::launch_and_publish() {
  const Attempt& attempt = lead_.attempt;
  const Status launched = launch_until_done();
  if (superseded()) {
    if (agent_step_) agent_step_->release();
    if (replacements_) replacements_->release();
    return {};
  }
  if (agents_ && batch_host_ != own_node()) {
    const auto batch = agents_->agents().find(batch_host_);
    batch_host_lost_ = batch == agents_->agents().end() || !batch->second.connected;
  }
  end_agents();
  LH_CHECK(launched);
  if (!record_.outcome.empty()) return {};
  const auto manifest = publish_artifact(attempt, lead_.task, spec_.launch, clock_);
  if (!manifest.ok()) {
    (void)clear_staging(attempt, lead_.job.restarts).ok();  // makes room for the record on a full disk
    return manifest.error().with_context("cannot publish the artifact");
  }
  Value fields = Value::make_table();
  fields.set("digest", manifest->digest());
  fields.set("files", manifest->files.size());
  events_.write("published", std::move(fields));
  return succeed({});
}

Status JobLead::succeed(const std::string& note) {
  record_.outcome = "succeeded";
  record_.cause = note;
  record_.exit_code = record_.signal = 0;
  return {};
}

// Ranks of other nodes are watched there. Without agents training goes on all the same, and less is known of it.
Status JobLead::start_agents() {
  const Attempt& attempt = lead_.attempt;
  if (attempt.agent_launcher.empty() || lead_.job.nodes.empty()) return {};
  AgentTableOptions options;
  options.attempt_key = attempt.key;
  options.address_path = lead_address_path(attempt.attempt_dir, lead_.job.restarts);
  options.secret_path = lead_secret_path(attempt.attempt_dir, lead_.job.restarts);
  options.host = own_node();
  options.everywhere = true;
  options.record_path = attempt.record_path(lead_.job.restarts);
  LH_TRY(options.ports, ports_to_listen_on(attempt.ports, slurm_ports_));
  options.addresses = ways_to_node(options.host);
  LH_TRY(options.hosts, expand_host_list(lead_.job.nodes));
  LH_TRY(agents_, AgentTable::open(options, clock_, log_));
  std::vector<std::string> arguments = attempt.agent_launcher;
  arguments.insert(arguments.end(), {lead_.worker_program, "agent", "--attempt", attempt.attempt_dir});
  agent_step_.emplace(std::move(arguments), join_path(attempt.attempt_dir, "agents.log"), clock_, log_);
  return agent_step_->start();
}

void JobLead::look_at_agents() {
  if (!agents_) return;
  agents_->look();
  if (agent_step_ && !cancelled_) agent_step_->look(agents_->connected() == 0);
  leadership_.note(*agents_);
  if (!cancelled_ && !superseded()) replace_agents();
  keep_standby();
}

// A lead that has taken over does so as well: the first step is another's, and the launcher is the same.
void JobLead::replace_agents() {
  const std::string& folder = lead_.attempt.attempt_dir;
  if (!replacements_)
    replacements_.emplace(lead_.attempt.agent_launcher,
                          std::vector<std::string>{lead_.worker_program, "agent", "--attempt", folder},
                          join_path(folder, "agents.log"), clock_, log_);
  replacements_->look(*agents_, agent_step_ ? &*agent_step_ : nullptr);
  for (const AgentNews& news : replacements_->take_news()) {
    WarningEvent warning;
    warning.kind = news.kind == AgentNews::Kind::back ? "agent_lost_over" : "agent_lost";
    warning.fault_class = to_string(FaultClass::agent_lost);
    warning.host = news.host;
    const double after_s = static_cast<double>(news.ms) * 1e-3;
    warning.text = news.kind == AgentNews::Kind::back
                       ? format("another agent reports from {}, {:.1f} s after the one before", news.host, after_s)
                   : news.kind == AgentNews::Kind::lost
                       ? format("the agent of {} has ended and its host answers: another one is started", news.host)
                       : format("{} has had no agent for {:.0f} s, and {} starts brought none: its ranks go on unseen",
                                news.host, after_s, news.tries);
    report_warning(std::move(warning));
  }
}

void JobLead::end_agents() {
  if (!agents_) return;
  if (replacements_) replacements_->give_up_absent(*agents_);
  agents_->end(agents_end_ms);
  if (replacements_) replacements_->end();
  if (agent_step_) agent_step_->end();
  agents_.reset();
}

// Launches until one ends well, the job is asked to stop, or the policy says that another launch would not help.
Status JobLead::launch_until_done() {
  for (;;) {
    ++record_.launches;
    if (record_.launches > 1 && !agents_ && !taken_over_) bring_agents();
    LH_TRY(const LaunchOutcome end, taken_over_ ? adopt_launch() : launch_once());
    if (leadership_.check_superseded(agents_.get())) return {};
    take_in_end(end);
    judge_wall_time(end);
    judge_stop_request(end);
    fail_for_requests();
    if (cancelled_ || time_limit_passed_ || wall_time_over_ || end.ok()) return {};
    if (!grow_after(end) && !go_on_after(end)) return {};
    if (leadership_.check_superseded(agents_.get())) return {};
  }
}

// What the ranks and the events say, now that all ranks have ended.
void JobLead::take_in_end(const LaunchOutcome& end) {
  look_at_ranks();
  record_.step = std::max(record_.step, watch_.newest_step());
  hear(tail_.look_now());
  const bool by_own_timer = event_facts_.stopped() == stopped_by_own_timer;
  if (end.ok() || cancelled_ || wall_time_over_ || !deadline_.is_known() || !by_own_timer) return;
  wall_time_over_ = true;
  log_.info("event=ranks_ended_in_time next=record");
}

void JobLead::judge_wall_time(const LaunchOutcome& end) {
  if (wall_time_over_)
    await_end_time();
  else
    wall_time_over_ = is_being_taken(end);
  // A program that was asked to save and stop may end well by itself; what it made is then an artifact like any other.
  if (wall_time_over_ && !end.ok()) record_.ended_by = deadline_.preempted() ? "preempted" : "wall_time";
}

// Asked to stop while its ranks were ended: nothing is started any more, and nobody takes it for a fault alone.
void JobLead::judge_stop_request(const LaunchOutcome& end) {
  if (!cancelled_ && stop_signal_pending()) {
    cancelled_ = true;
    if (end.finding && end.finding->kind == GuardFinding::Kind::host_lost) lost_with_job_ = end.finding;
  }
  if (lost_with_job_) end_with_lost_host(end);
}

// The record names the first of the requests that ended the ranks.
void JobLead::fail_for_requests() {
  if (cancelled_) fail("asked to stop (SIGTERM)");
  if (!record_.ended_by.empty())
    fail(deadline_.preempted() ? "the scheduler takes the job's nodes before its wall time is over: its ranks were "
                                 "asked to save and stop"
                               : "the job's wall time is nearly over: its ranks were asked to save and stop");
  if (time_limit_passed_ && !cancelled_ && record_.ended_by.empty()) record_.ended_by = "time_limit";
  if (time_limit_passed_) fail(format("the time limit of {} has passed", human_duration(lead_.attempt.time_limit_s)));
}

// In between the place in the events moves on, or a standby of a calm training would read weeks of them; never past
// something that is not decided upon yet.
void JobLead::keep_standby() {
  leadership_.keep_standby(*agents_, hosts_, spec_.launch.launch, [this] {
    if (event_facts_.at_rest() && skipped_.at_rest()) seen_ = seen();
    return state();
  });
}

LeadState JobLead::state() const {
  LeadState state;
  state.attempt_key = lead_.attempt.key;
  state.epoch = agents_->epoch();
  state.started_ms = started_ms_;
  state.lead_host = batch_host_, state.led_from = own_node();
  state.launch = spec_.launch;
  state.hosts = hosts_;
  state.history = history_;
  state.step = record_.step;
  state.judged = event_facts_.judged();
  state.end_by_ns = deadline_.end_by_ns();
  state.trial = trial_;
  state.seen = seen_;
  state.goodput = goodput_;
  state.ports = agents_->ports();
  return state;
}

}  // namespace longhaul
