#include "worker/lead/job_lead.h"

#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "base/fault_point.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "contracts/host_list.h"
#include "contracts/launch.h"
#include "worker/lead/leftovers.h"
#include "worker/lead/publish.h"
#include "worker/lead/told_signal.h"

namespace longhaul {
namespace {

constexpr std::int64_t look_interval_ms = 50;
constexpr std::int64_t agents_end_ms = 2'000;
constexpr std::int64_t launcher_ends_ms = 1'500;  // by itself, once its ranks are gone
constexpr std::int64_t ranks_gone_ms = 10'000;    // after SIGKILL; then their node is not used again
constexpr std::int64_t kill_again_ms = 500;
constexpr std::int64_t ping_interval_ms = 500;
constexpr std::int64_t stacks_at_a_hang_ms = 2'000;

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
      beat_sockets_(log),
      stacks_(lead_.worker_program, clock),
      guard_(lead_.attempt.resiliency, true) {}

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
  const Status status = lead_to_artifact();
  if (!status.ok()) fail(status.error().message());
  return record_;
}

JobRecord JobLead::take_over(const LeadState& state, std::unique_ptr<AgentTable> agents) {
  describe(state.started_ms);
  batch_host_ = state.lead_host;
  record_.launches = state.launch.launch - 1;
  record_.step = state.step;
  hosts_ = state.hosts;
  history_ = state.history;
  saved_step_ = state.saved_step;
  taken_over_ = state.launch;
  agents_ = std::move(agents);
  Status status = prepare();
  if (status.ok()) status = launch_and_publish();
  if (!status.ok()) fail(status.error().message());
  return record_;
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
  LearnedTimes learned;
  if (const auto kept = read_file(learned_path()); kept.ok())
    if (const auto value = parse_json(*kept); value.ok())
      if (auto times = LearnedTimes::from_value(*value); times.ok()) learned = std::move(*times);
  guard_ = LaunchGuard(attempt.resiliency, has_own_program(lead_.task), std::move(learned));
  return {};
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
  return launch_and_publish();
}

Status JobLead::launch_and_publish() {
  const Attempt& attempt = lead_.attempt;
  const Status launched = launch_until_done();
  if (superseded_) return {};
  if (agents_ && batch_host_ != own_node()) {
    const auto batch = agents_->agents().find(batch_host_);
    batch_host_lost_ = batch == agents_->agents().end() || !batch->second.connected;
  }
  end_agents();
  LH_CHECK(launched);
  if (!record_.outcome.empty()) return {};
  const auto manifest = publish_artifact(attempt, lead_.task, clock_);
  if (!manifest.ok()) {
    (void)remove_tree(attempt.staging_dir()).ok();  // makes room for the record on a full disk
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
  if (agent_step_ && !cancelled_) agent_step_->look();
  superseded_ = superseded_ || agents_->superseded();
  keep_standby();
}

void JobLead::end_agents() {
  if (!agents_) return;
  agents_->end(agents_end_ms);
  if (agent_step_) agent_step_->end();
  agents_.reset();
}

// Launches until one ends well, we are told to stop, or the policy says that another would not help.
Status JobLead::launch_until_done() {
  for (;;) {
    ++record_.launches;
    LH_TRY(const End end, taken_over_ ? adopt_launch() : launch_once());
    if (superseded_) return {};
    look_at_ranks();
    record_.step = std::max(record_.step, watch_.newest_step());
    // A program that was told to save and stop may end well by itself; what it made is then an artifact like any other.
    if (wall_time_over_ && !end.ok()) record_.ended_by = "wall_time";
    if (cancelled_) fail("told to stop (SIGTERM)");
    if (!record_.ended_by.empty()) fail("the job's wall time is nearly over: its ranks were told to save and stop");
    if (time_limit_passed_) fail(format("the time limit of {} has passed", human_duration(lead_.attempt.time_limit_s)));
    if (cancelled_ || time_limit_passed_ || wall_time_over_ || end.ok() || !go_on_after(end)) return {};
  }
}

Result<JobLead::End> JobLead::launch_once() {
  const Attempt& attempt = lead_.attempt;
  adopted_ = false;
  LH_CHECK(remove_tree(attempt.staging_dir()));
  LH_CHECK(make_directories(attempt.staging_dir()));
  LH_TRY(spec_, prepare_launch(lead_, record_.launches, hosts_, agents_ != nullptr));
  watch_.new_launch(spec_.launch, page_folders(spec_.launch, attempt.steps), restart_wait());
  guard_.new_launch(clock_.monotonic_ns() / 1'000'000, spec_.launch.epoch);
  orders_.new_launch();
  RankGroup ranks(clock_);
  if (agents_)
    tell_agents(spec_.launch);
  else
    open_beat_sockets();
  LH_CHECK(ranks.start(spec_));
  state_changed_ = true;
  note_processes(ranks);
  recovery_.launched(spec_.launch.launch, spec_.launch.ranks);
  tell_launched(spec_);
  if (auto fault = fault_here(FaultPoint::lead_ranks_started)) return *fault;
  LH_TRY(const End end, watch(ranks));
  if (guard_.learned() != LearnedTimes{}) keep_learned_times();
  Value ended = Value::make_table();
  ended.set("launch", spec_.launch.launch);
  ended.set("status", end.launch.status.text());
  if (!end.launch.step.empty()) ended.set("step", end.launch.step);
  events_.write("ranks_ended", std::move(ended));
  return end;
}

Result<JobLead::End> JobLead::adopt_launch() {
  spec_ = {};
  spec_.attempt = lead_.attempt;
  spec_.task = lead_.task;
  spec_.worker_program = lead_.worker_program;
  spec_.launch = *taken_over_;
  spec_.launch_path = join_path(spec_.launch.launch_dir, "launch.toml");
  taken_over_.reset();
  adopted_ = state_changed_ = true;
  watch_.new_launch(spec_.launch, page_folders(spec_.launch, lead_.attempt.steps), restart_wait());
  guard_.new_launch(clock_.monotonic_ns() / 1'000'000, spec_.launch.epoch);
  orders_.new_launch();
  tell_agents(spec_.launch);
  Value fields = Value::make_table();
  fields.set("launch", spec_.launch.launch);
  fields.set("epoch", agents_->epoch());
  fields.set("host", host_name());
  events_.write("taken_over", std::move(fields));
  RankGroup none(clock_);
  return watch(none);
}

Result<std::optional<LaunchEnd>> JobLead::poll_ranks(RankGroup& ranks, double grace_s, const std::string& lost_host) {
  if (!adopted_) return ranks.poll(grace_s);
  // Nothing but the pages is known of them. Those on nodes that are not heard of keep this launch open: whether such a
  // node is lost is the guard's to say.
  std::optional<LaunchEnd> end = LaunchEnd{0, ExitStatus{0, 0}, {}};
  for (int rank = 0; rank < spec_.launch.ranks; ++rank) {
    const RankReport* report = watch_.rank(rank);
    if (!lost_host.empty() && watch_.host_of(rank) == lost_host) {
      if (end->ok()) end = LaunchEnd{rank, ExitStatus{-1, SIGKILL}, {}};
      continue;
    }
    if (!report || report->state != ProcessState::ended) return std::optional<LaunchEnd>{};
    if (report->beat.section == beat_finished || !end->ok()) continue;
    const bool told = starts_with(report->beat.section, beat_failed);
    end = LaunchEnd{rank,
                    told ? ExitStatus{std::atoi(report->beat.section.c_str() + std::strlen(beat_failed)), 0}
                         : ExitStatus{-1, SIGKILL},
                    {}};
  }
  return end;
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
    state.state = lead_state_to_value({lead_.attempt.key, agents_->epoch(), started_ms_, batch_host_, spec_.launch,
                                       hosts_, history_, record_.step, saved_step_});
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

// Whether this lead may decide anything: where most agents are not heard of, another may have taken over.
bool JobLead::has_majority() const {
  if (!agents_) return true;
  int heard = 0, all = 0;
  const std::vector<std::string> left = hosts_.left();
  for (const auto& [host, agent] : agents_->agents()) {
    if (std::find(left.begin(), left.end(), host) != left.end()) continue;
    ++all;
    if (agent.connected) ++heard;
  }
  return 2 * heard > all;
}

void JobLead::tell_launched(const LaunchSpec& spec) {
  Value fields = Value::make_table();
  fields.set("launch", spec.launch.launch);
  fields.set("ranks", spec.launch.ranks);
  fields.set("host", host_name());
  if (spec.launch.hosts.size() > 1 || !hosts_.left().empty()) {
    Value hosts = Value::make_array();
    for (const std::string& host : spec.launch.hosts) hosts.push_back(host);
    fields.set("hosts", std::move(hosts));
  }
  for (const JobStep& step : lead_.attempt.steps) {
    Value hosts;
    for (const std::string& host : step_hosts(spec.launch, step)) hosts.push_back(host);
    Value* steps = fields.find("steps");
    (steps ? *steps : fields.set("steps", Value::make_table())).set(step.name, std::move(hosts));
  }
  events_.write("launched", std::move(fields));
}

// Every agent of the job hears of it: those of spares and of nodes that were left have nothing to watch.
void JobLead::tell_agents(const Launch& launch) {
  std::map<std::string, std::vector<int>> ranks_of;
  for (int rank = 0; rank < launch.ranks; ++rank)
    ranks_of[launch.hosts[static_cast<std::size_t>(launch.rank_host[static_cast<std::size_t>(rank)])]].push_back(rank);
  agents_->watch(launch.launch, beat_folder(launch), ranks_of, restart_wait());
}

// Ranks that another lead has started are told through their agents.
void JobLead::stop_ranks(RankGroup& ranks) {
  if (!adopted_) return ranks.stop();
  std::map<std::string, std::vector<int>> remote;
  for (const int rank : watch_.alive()) remote[watch_.host_of(rank)].push_back(rank);
  for (const auto& [host, of_host] : remote) agents_->signal(host, of_host, SIGTERM);
}

void JobLead::obey_signal(RankGroup& ranks) {
  const int told = wait_for_told_signal(look_interval_ms);
  if (told == SIGTERM && !cancelled_) {
    cancelled_ = true;
    log_.info("event=told_to_stop next=stop_ranks");
    stop_ranks(ranks);
  } else if (told == SIGUSR1 && !wall_time_over_ && !cancelled_) {
    wall_time_over_ = true;
    log_.info("event=wall_time_nearly_over next=stop_ranks");
    stop_ranks(ranks);
  }
}

Result<JobLead::End> JobLead::watch(RankGroup& ranks) {
  const auto limit_ms = static_cast<std::int64_t>(lead_.attempt.time_limit_s * 1000);
  const Deadline limit(clock_, limit_ms);
  MilestoneWatch milestones(lead_.attempt, lead_.task, clock_);
  for (;;) {
    LH_TRY(const auto end, poll_ranks(ranks, lead_.attempt.grace_s, {}));
    look_at_agents();
    if (superseded_) {
      log_.warn("event=superseded next=leave_ranks_to_the_new_lead");
      ranks.release();
      return End{};
    }
    look_at_ranks();
    orders_.look(watch_.first_page());
    look_at_stacks();
    if (end) return End{*end, std::nullopt};
    if (const auto finding = look_for_faults()) {
      if (finding->kind == GuardFinding::Kind::faulted && restart_in_process(*finding)) continue;
      if (finding->kind == GuardFinding::Kind::hang) finish_stacks();
      LH_TRY(const LaunchEnd put, put_down(ranks, *finding));
      return End{put, finding};
    }
    if (milestones.look()) rounds_.ask();
    rounds_.look();
    if (limit_ms > 0 && limit.passed() && !time_limit_passed_ && !cancelled_) {
      time_limit_passed_ = true;
      log_.warn("event=time_limit next=stop_ranks");
      stop_ranks(ranks);
    }
    obey_signal(ranks);
  }
}

// For programs that speak text; without sockets they run as well, and less is known of them.
void JobLead::open_beat_sockets() {
  beat_sockets_.close();
  if (lead_.task.kind != "command") return;
  for (const PageFolder& folder : page_folders(spec_.launch, lead_.attempt.steps)) {
    std::vector<int> ranks(static_cast<std::size_t>(folder.ranks));
    std::iota(ranks.begin(), ranks.end(), 0);
    if (const Status opened = beat_sockets_.open(folder.path, ranks); !opened.ok())
      log_.warn("event=no_beat_sockets error='" + opened.error().message() + "' next=launch_without_them");
  }
}

void JobLead::note_processes(const RankGroup& ranks) {
  started_here_.clear();
  for (const RankGroup::Process& process : ranks.processes()) {
    int rank = process.rank;
    for (const JobStep& step : lead_.attempt.steps) {
      if (step.name == process.step) break;
      rank += step.ranks;
    }
    started_here_[rank] = process.pid;
  }
}

// A rank's page knows best which process it is; a program without heartbeat is what was started for it.
void JobLead::begin_stacks() {
  std::map<int, pid_t> pids = started_here_;
  for (const auto& [rank, report] : watch_.ranks())
    if (report.beat.pid > 0) pids[rank] = static_cast<pid_t>(report.beat.pid);
  stacks_.begin(spec_.launch.launch_dir, spec_.launch.ranks, pids, agents_.get());
}

void JobLead::look_at_stacks() {
  if (orders_.stacks_wanted()) begin_stacks();
  if (const auto seen = stacks_.look()) {
    log_.info(format("event=stacks launch={} text='{}'", record_.launches, seen->text));
    orders_.tell_stacks(*seen);
  }
}

// What a hang looked like is gone with its ranks. Begun when it was suspected, it is mostly there by now.
void JobLead::finish_stacks() {
  for (const Deadline deadline(clock_, stacks_at_a_hang_ms); stacks_.under_way() && !deadline.passed();
       clock_.sleep_ms(5)) {
    look_at_agents();
    look_at_stacks();
  }
}

void JobLead::look_at_ranks() {
  beat_sockets_.look();
  watch_.look(agents_.get());
  if (const auto recovered = recovery_.look(clock_.monotonic_ns() / 1'000'000, watch_.ranks()))
    events_.write(recovered_event_kind, to_value(*recovered));
}

// All ranks of the launch: one that nothing was seen of yet is also one to wait for.
std::vector<RankObservation> JobLead::rank_sights() const {
  std::vector<RankObservation> sights;
  const std::int64_t now = clock_.monotonic_ns();
  for (int rank = 0; rank < spec_.launch.ranks; ++rank) {
    RankObservation sight;
    sight.rank = rank;
    sight.host = watch_.host_of(rank);
    if (const RankReport* report = watch_.rank(rank)) {
      sight.process = report->state;
      sight.beat = report->beat;
      sight.idle_ms = report->idle_ms;
      sight.seen = true;
    }
    if (agents_)
      if (const auto agent = agents_->agents().find(sight.host);
          agent != agents_->agents().end() && agent->second.heard_ns > 0)
        sight.silent_ms = (now - agent->second.heard_ns) / 1'000'000;
    sights.push_back(std::move(sight));
  }
  return sights;
}

std::vector<HostSight> JobLead::host_sights() const {
  std::vector<HostSight> sights;
  if (!agents_) return sights;
  const std::int64_t now = clock_.monotonic_ns();
  for (const auto& [host, agent] : agents_->agents()) {
    if (!hosts_.is_working(host)) continue;
    HostSight sight{host, agent.heard_ns > 0, agent.connected, 0, 0};
    if (agent.heard_ns > 0) sight.silent_ms = (now - agent.heard_ns) / 1'000'000;
    if (!agent.connected && agent.lost_ns > 0) sight.apart_ms = (now - agent.lost_ns) / 1'000'000;
    sights.push_back(sight);
  }
  return sights;
}

// Ranks that were told to stop are left alone: they end, each at its own time, or are ended after the grace.
std::optional<GuardFinding> JobLead::look_for_faults() {
  if (cancelled_ || time_limit_passed_ || wall_time_over_ || !has_majority()) return std::nullopt;
  const auto found = guard_.look(clock_.monotonic_ns() / 1'000'000, rank_sights(), host_sights());
  if (const auto& suspicion = guard_.suspicion()) tell_suspicion(*suspicion);
  if (guard_.suspicion_over()) log_.info(format("event=hang_over launch={}", record_.launches));
  if (!found) return found;
  log_.warn(format("event=fault_found launch={} rank={} host={} detect_s={:.2f} cause='{}'", record_.launches,
                   found->rank, found->host, found->detect_s, found->cause));
  recovery_.fault(clock_.monotonic_ns() / 1'000'000, found->detect_s, watch_.newest_step());
  return found;
}

void JobLead::tell_suspicion(const HangFinding& finding) {
  begin_stacks();
  log_.warn(format("event=hang_suspected launch={} what='{}'", record_.launches, finding.text()));
  Value fields = Value::make_table();
  fields.set("launch", record_.launches);
  fields.set("rank_of", finding.culprits.empty() ? finding.rank : finding.culprits.front().rank);
  fields.set("section", finding.section);
  fields.set("idle_s", finding.idle_s);
  fields.set("text", finding.text());
  events_.write("hang_suspected", std::move(fields));
}

// How long sections take is known to the next launch and the next job: beside the checkpoints.
std::string JobLead::learned_path() const {
  return join_path(lead_.attempt.state_dir(), "section-times.json");
}
void JobLead::keep_learned_times() {
  const Status kept = write_file_renamed(learned_path(), to_json(guard_.learned().to_value()) + "\n");
  if (!kept.ok()) log_.warn("event=section_times_not_kept error='" + kept.error().message() + "'");
}

void JobLead::kill_ranks() {
  std::map<std::string, std::vector<int>> remote;
  for (const int rank : watch_.alive()) {
    if (agents_)
      remote[watch_.host_of(rank)].push_back(rank);
    else
      ::kill(static_cast<pid_t>(watch_.rank(rank)->beat.pid), SIGKILL);
  }
  for (const auto& [host, ranks] : remote) agents_->signal(host, ranks, SIGKILL);
}

Result<LaunchEnd> JobLead::put_down(RankGroup& ranks, const GuardFinding& finding) {
  std::optional<LaunchEnd> end;
  const Deadline launcher(clock_, finding.kind == GuardFinding::Kind::rank_ended ? launcher_ends_ms : 0);
  const Deadline gone(clock_, ranks_gone_ms);
  std::int64_t next_kill_ns = 0;
  bool killed = false;
  for (;;) {
    if (clock_.monotonic_ns() >= next_kill_ns) {
      kill_ranks();
      next_kill_ns = clock_.monotonic_ns() + kill_again_ms * 1'000'000;
    }
    if (!end) {
      LH_TRY(end, poll_ranks(ranks, 0, finding.rank < 0 ? finding.host : std::string()));
    }
    look_at_agents();
    look_at_ranks();
    std::vector<int> alive = watch_.alive();
    std::erase_if(alive, [&](int rank) { return watch_.host_of(rank) == finding.host && finding.rank < 0; });
    if (end && alive.empty()) break;
    if (!end && !killed && launcher.passed()) {
      ranks.kill();
      killed = true;
    }
    if (end && gone.passed()) {
      for (const int rank : alive) {
        log_.warn(format("event=rank_does_not_end rank={} host={} next=leave_host", rank, watch_.host_of(rank)));
        hosts_.leave(watch_.host_of(rank));
      }
      break;
    }
    clock_.sleep_ms(10);
  }
  return *end;
}

}  // namespace longhaul
