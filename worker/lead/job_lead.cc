#include "worker/lead/job_lead.h"

#include <algorithm>
#include <set>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "contracts/host_list.h"
#include "worker/lead/job_end_time.h"
#include "worker/lead/leftovers.h"
#include "worker/lead/publish.h"
#include "worker/lead/staging.h"
#include "worker/lead/told_signal.h"

namespace longhaul {
namespace {

constexpr std::int64_t agents_end_ms = 2'000;
constexpr std::int64_t ping_interval_ms = 500;

}  // namespace

JobLead::JobLead(Attempt attempt, std::string worker_program, JobSurroundings job, NextRound& rounds, Clock& clock,
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
      training_(lead_.attempt.resiliency) {}

void JobLead::describe(std::int64_t started_ms) {
  started_ms_ = started_ms;
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
  if (file_exists(lead_.attempt.cancelled_path())) {  // in a former life of the job
    cancelled_ = true;
    fail("cancelled before it began");
    return record_of_end();
  }
  const Status status = lead_to_artifact();
  if (!status.ok()) fail(status.error().message());
  return record_of_end();
}

JobRecord JobLead::record_of_end() {
  record_.nodes_left = hosts_.left();
  return record_;
}

JobRecord JobLead::take_over(const LeadState& state, std::unique_ptr<AgentTable> agents, SchedulerVote vote) {
  vote_.emplace(std::move(vote));
  describe(state.started_ms);
  batch_host_ = state.lead_host;
  record_.launches = state.launch.launch - 1;
  record_.step = state.step;
  hosts_ = state.hosts;
  history_ = state.history;
  trial_ = state.trial;
  saved_step_ = state.saved_step;
  taken_over_ = state.launch;
  lost_lead_ns_ = state.lost.since_ns;
  end_by_ms_ = state.end_by_ms;
  agents_ = std::move(agents);
  Status status = prepare();
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
    interval_.emplace(lead_.task.resources.nodes, set_interval_steps(lead_.task.settings) > 0);
  grace_s_ = attempt.grace_s;
  timeouts_.emplace(attempt, lead_.task.kind);
  timeouts_->take(learned);
  if (end_by_ms_ > 0)
    pass_on_end_time();  // the scheduler may take a second to answer, and ranks wait for who takes over
  else
    ask_end_time();
  guard_ = LaunchGuard(attempt.resiliency, has_own_program(lead_.task), std::move(learned));
  training_ = TrainingWatch(attempt.resiliency);
  growth_ = GrowBack(attempt.resiliency.grow_after.value);
  const std::vector<Event> earlier = tail_.open(attempt.events_path());
  told_.take(earlier);
  timeouts_->take(earlier);
  skipped_ = SkippedSteps(lead_.task.settings);
  skipped_.take(earlier);
  return {};
}

// Without an answer the ranks still hear of the end by the signal before it.
void JobLead::ask_end_time() {
  if (lead_.job.scheduler_job.empty()) return;
  const auto end = job_end_time_ms(lead_.job.scheduler_job);
  if (!end.ok()) return log_.info("event=end_time_not_known why='" + end.error().message() + "'");
  if (*end > 0) must_end_by(*end);
  if (*end > 0) timeouts_->ends_in(static_cast<double>(*end - clock_.wall_ms()) * 1e-3);
  if (const auto times = scheduler_times(); times.ok()) timeouts_->take(*times);
}

// The earliest that was told counts.
void JobLead::must_end_by(std::int64_t wall_ms) {
  if (end_by_ms_ > 0 && end_by_ms_ <= wall_ms) return;
  end_by_ms_ = wall_ms;
  pass_on_end_time();
}

void JobLead::pass_on_end_time() {
  watch_.must_end_by(end_by_ms_);
  if (agents_) agents_->must_end_by(end_by_ms_);
}

Status JobLead::lead_to_artifact() {
  const Attempt& attempt = lead_.attempt;
  LH_CHECK(prepare());
  const auto earlier = published_artifact(attempt, lead_.task);
  if (earlier.ok()) return succeed("published by an earlier attempt");
  if (earlier.error().code != ErrorCode::not_found) return earlier.error();
  LH_CHECK(clear_earlier_attempts(attempt, clock_));
  LH_CHECK(make_directories(attempt.state_dir()));
  LH_TRY(hosts_, host_pool_of(lead_));
  if (const Status started = start_agents(); !started.ok()) {
    log_.warn("event=no_agents error='" + started.error().message() + "' next=launch_without_them");
    agents_.reset();
    agent_step_.reset();
  }
  preflight();
  return launch_and_publish();
}

Status JobLead::launch_and_publish() {
  const Attempt& attempt = lead_.attempt;
  const Status launched = launch_until_done();
  if (superseded_) {
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
  LH_TRY(options.hosts, expand_host_list(lead_.job.nodes));
  LH_TRY(agents_, AgentTable::open(options, clock_, log_));
  std::vector<std::string> words = attempt.agent_launcher;
  words.insert(words.end(), {lead_.worker_program, "agent", "--attempt", attempt.attempt_dir});
  agent_step_.emplace(std::move(words), join_path(attempt.attempt_dir, "agents.log"), clock_, log_);
  return agent_step_->start();
}

void JobLead::look_at_agents() {
  if (!agents_) return;
  agents_->look();
  if (agent_step_ && !cancelled_) agent_step_->look(agents_->connected() == 0);
  superseded_ = superseded_ || agents_->superseded();
  if (!cancelled_ && !superseded_) replace_agents();
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
    WarningEvent told;
    told.kind = news.kind == AgentNews::Kind::back ? "agent_lost_over" : "agent_lost";
    told.fault_class = to_string(FaultClass::agent_lost);
    told.host = news.host;
    const double after_s = static_cast<double>(news.ms) * 1e-3;
    told.text = news.kind == AgentNews::Kind::back
                    ? format("another agent reports from {}, {:.1f} s after the one before", news.host, after_s)
                : news.kind == AgentNews::Kind::lost
                    ? format("the agent of {} has ended and its host answers: another one is started", news.host)
                    : format("{} has had no agent for {:.0f} s, and {} starts brought none: its ranks go on unseen",
                             news.host, after_s, news.tries);
    tell_warning(std::move(told));
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

// Launches until one ends well, we are told to stop, or the policy says that another would not help.
Status JobLead::launch_until_done() {
  for (;;) {
    ++record_.launches;
    LH_TRY(const End end, taken_over_ ? adopt_launch() : launch_once());
    if (is_followed()) return {};
    look_at_ranks();
    record_.step = std::max(record_.step, watch_.newest_step());
    hear(tail_.look_now());
    if (!end.ok() && !cancelled_ && !wall_time_over_ && end_by_ms_ > 0 && told_.stopped() == stopped_by_own_timer) {
      wall_time_over_ = true;
      log_.info("event=ranks_ended_in_time next=record");
    }
    // A program that was told to save and stop may end well by itself; what it made is then an artifact like any other.
    if (wall_time_over_ && !end.ok()) record_.ended_by = "wall_time";
    // Told to stop while its ranks were ended: nothing is started any more, and nobody takes it for a fault alone.
    if (!cancelled_ && told_to_stop_waits()) {
      cancelled_ = true;
      if (end.finding && end.finding->kind == GuardFinding::Kind::host_lost) lost_with_job_ = end.finding;
    }
    if (lost_with_job_) end_with_lost_host(end);
    if (cancelled_) fail("told to stop (SIGTERM)");
    if (!record_.ended_by.empty()) fail("the job's wall time is nearly over: its ranks were told to save and stop");
    if (time_limit_passed_) fail(format("the time limit of {} has passed", human_duration(lead_.attempt.time_limit_s)));
    if (cancelled_ || time_limit_passed_ || wall_time_over_ || end.ok()) return {};
    if (!grow_after(end) && !go_on_after(end)) return {};
    if (is_followed()) return {};
  }
}

// The standby is an agent of another node than this lead's; it is told of every change, and the others whom to turn to.
// Agents hear of the lead twice a second in any case.
void JobLead::keep_standby() {
  const std::int64_t now = clock_.monotonic_ns();
  if (superseded_ || (now < next_ping_ns_ && !(state_changed_ && agents_->connected() > 0))) return;
  next_ping_ns_ = now + ping_interval_ms * 1'000'000;
  AgentOrder ping;
  ping.kind = AgentOrder::Kind::ping;
  agents_->order_all(ping);
  const auto lives = [&](const std::string& host) {
    const auto agent = agents_->agents().find(host);
    return agent != agents_->agents().end() && agent->second.connected;
  };
  if (!lives(standby_)) {
    standby_.clear(), standby_port_ = 0;
    for (const std::string& host : hosts_.all())
      if (standby_.empty() && host != own_node() && lives(host)) standby_ = host;
    state_changed_ = true;
  }
  if (standby_.empty() || spec_.launch.launch == 0) return;
  if (state_changed_) {
    AgentOrder state;
    state.kind = AgentOrder::Kind::state;
    state.state = lead_state_to_value({lead_.attempt.key,
                                       agents_->epoch(),
                                       started_ms_,
                                       batch_host_,
                                       own_node(),
                                       spec_.launch,
                                       hosts_,
                                       history_,
                                       record_.step,
                                       saved_step_,
                                       end_by_ms_,
                                       trial_,
                                       {}});
    agents_->order(standby_, state);
    state_changed_ = false;
  }
  // Told again and again: agents come and go.
  standby_port_ = agents_->agents().at(standby_).report.standby_port;
  if (standby_port_ == 0) return;
  AgentOrder standby;
  standby.kind = AgentOrder::Kind::standby;
  standby.host = standby_, standby.port = standby_port_;
  agents_->order_all(standby);
}

// A lead that was frozen with its host may wake at any point, after another one has led, and even ended, the job:
// before it tells of an end, and before it launches again, it looks whether it was followed.
bool JobLead::is_followed() {
  if (agents_ && !superseded_) {
    agents_->look_for_successor();
    superseded_ = agents_->superseded();
    if (superseded_) log_.warn("event=superseded next=leave_all_to_the_new_lead");
  }
  return superseded_;
}

// Whether this lead may decide anything: where most agents are not heard of, another may have taken over.
bool JobLead::has_majority() {
  if (!agents_) return true;
  std::vector<std::string> hosts;
  std::set<std::string> heard;
  const std::vector<std::string> left = hosts_.left();
  for (const auto& [host, agent] : agents_->agents()) {
    if (std::find(left.begin(), left.end(), host) != left.end()) continue;
    hosts.push_back(host);
    if (agent.connected) heard.insert(host);
  }
  if (is_majority(hosts, heard, {})) return true;
  if (!vote_) vote_.emplace(ask_for_nodes_of(lead_.job.scheduler_job), own_node(), clock_);
  return is_majority(hosts, heard, vote_->look(hosts));
}

std::optional<GuardFinding> JobLead::gone_by_scheduler() const {
  if (!vote_) return std::nullopt;
  for (const std::string& host : vote_->gone()) {
    const auto agent = agents_->agents().find(host);
    if (!hosts_.is_working(host) || (agent != agents_->agents().end() && agent->second.connected)) continue;
    GuardFinding found;
    found.kind = GuardFinding::Kind::host_lost;
    found.host = host;
    found.step = watch_.newest_step();
    found.cause = format("node {} is gone: the scheduler has taken it out of the job", host);
    return found;
  }
  return std::nullopt;
}

}  // namespace longhaul
