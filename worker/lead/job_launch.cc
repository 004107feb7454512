// One launch of a lead's ranks: started or adopted, watched until it ends, put down when a fault was found.
#include <signal.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/files/files.h"
#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "contracts/records/launch.h"
#include "worker/lead/failover/stop_signal.h"
#include "worker/lead/job_lead.h"
#include "worker/lead/recovery/later_attempt.h"
#include "worker/lead/teardown.h"

namespace longhaul {
namespace {

constexpr std::int64_t look_interval_ms = 50;
constexpr std::int64_t launcher_sees_ms = 100;    // which rank ended first, and how: before the others are killed, too
constexpr std::int64_t launcher_ends_ms = 1'500;  // by itself, once its ranks are gone
constexpr std::int64_t kill_again_ms = 500;
constexpr std::int64_t ends_within_ms = 2'000;    // mostly, also where nobody has time to wait for more
constexpr std::int64_t room_within_ms = 600'000;  // on a disk that is full

}  // namespace

Result<LaunchSpec> JobLead::prepare_launch_folder() {
  lead_.epoch = agents_ ? agents_->epoch() : 1;
  return prepare_launch(lead_, record_.launches, hosts_, agents_ != nullptr, event_facts_.whole_step());
}

// A disk that is full, or a file system that gives errors, is no reason to end what has worked for weeks: somebody may
// make room. The first launch of a job fails at once.
Result<LaunchSpec> JobLead::prepare_in_time() {
  bool logged = false;
  for (const Deadline room(clock_, room_within_ms);;) {
    auto spec = prepare_launch_folder();
    const bool may_come = !spec.ok() && spec.error().code == ErrorCode::io && record_.launches > 1 && !room.passed();
    if (!may_come || cancelled_ || wall_time_over_ || superseded()) return spec;
    if (!std::exchange(logged, true))
      log_.warn(format("event=no_launch launch={} error='{}' next=try_again_for_{}", record_.launches,
                       spec.error().message(), human_duration(static_cast<double>(room_within_ms) * 1e-3)));
    LaunchedRanks none = ranks_of_launch(LaunchedRanks::Origin::started, 0);
    for (const Deadline again(clock_, 1'000); !again.passed() && !cancelled_ && !superseded();) {
      look_at_agents();
      obey_signal(none);
    }
  }
}

LaunchedRanks JobLead::ranks_of_launch(LaunchedRanks::Origin origin, int ranks) {
  return {origin, lead_.attempt.key, ranks, watch_, clock_, log_};
}

Result<LaunchOutcome> JobLead::launch_once() {
  LH_TRY(spec_, prepare_in_time());
  if (!goodput_) goodput_.emplace(clock_.monotonic_ns() / 1'000'000);
  old_launches_.new_launch(parent_path(spec_.launch.launch_dir), spec_.launch.launch);
  begin_watch();
  LaunchedRanks ranks = ranks_of_launch(LaunchedRanks::Origin::started, spec_.launch.ranks);
  agents_ ? report_agents(spec_.launch) : open_beat_sockets();
  LH_CHECK(ranks.start(spec_));
  launched_ns_ = clock_.monotonic_ns();
  trial_.launched();
  leadership_.note_change();
  started_here_ = ranks.processes(lead_.attempt.steps);
  recovery_.launched(spec_.launch.launch, spec_.launch.ranks);
  report_launched(spec_);
  if (auto fault = fault_here(FaultPoint::lead_ranks_started)) return *fault;
  LH_TRY(const LaunchOutcome end, watch(ranks));
  ranks_ended_ns_ = clock_.monotonic_ns();
  if (guard_.learned() != LearnedTimes{}) keep_learned_times();
  Value ended = Value::make_table();
  ended.set("launch", spec_.launch.launch);
  ended.set("status", end.launch.status.text());
  if (!end.launch.step.empty()) ended.set("step", end.launch.step);
  events_.write("ranks_ended", std::move(ended));
  return end;
}

Result<LaunchOutcome> JobLead::adopt_launch() {
  spec_ = {};
  spec_.attempt = lead_.attempt;
  spec_.task = lead_.task;
  spec_.worker_program = lead_.worker_program;
  spec_.launch = *taken_over_;
  spec_.launch_path = join_path(spec_.launch.launch_dir, "launch.toml");
  taken_over_.reset();
  leadership_.note_change();
  growing_ = recorded_growth_;
  begin_watch();
  const std::int64_t now_ms = clock_.monotonic_ns() / 1'000'000;
  guard_.adopt_launch(now_ms, spec_.launch.epoch, lost_lead_ns_ > 0 ? lost_lead_ns_ / 1'000'000 : now_ms);
  report_agents(spec_.launch);
  Value fields = Value::make_table();
  fields.set("launch", spec_.launch.launch);
  fields.set("epoch", agents_->epoch());
  fields.set("host", host_name());
  events_.write("taken_over", std::move(fields));
  LaunchedRanks ranks = ranks_of_launch(LaunchedRanks::Origin::adopted, spec_.launch.ranks);
  return watch(ranks);
}

void JobLead::report_launched(const LaunchSpec& spec) {
  Value fields = Value::make_table();
  fields.set("launch", spec.launch.launch);
  fields.set("ranks", spec.launch.ranks);
  fields.set("host", host_name());
  if (spec.launch.dims != spec.task.dims) fields.set("layout", spec.launch.dims.to_string());  // it has shrunk
  if (spec.launch.hosts.size() > 1 || !hosts_.left().empty()) {
    Value hosts = Value::make_array();
    for (const std::string& host : spec.launch.hosts) hosts.push_back(host);
    fields.set("hosts", std::move(hosts));
  }
  if (!hosts_.spares().empty()) fields.set("spares", hosts_.spares().size());
  for (const JobStep& step : lead_.attempt.steps) {
    Value hosts;
    for (const std::string& host : step_hosts(spec.launch, step)) hosts.push_back(host);
    Value* steps = fields.find("steps");
    (steps ? *steps : fields.set("steps", Value::make_table())).set(step.name, std::move(hosts));
  }
  events_.write("launched", std::move(fields));
}

// Every agent of the job gets it: those of spares and of nodes that were left have nothing to watch.
void JobLead::report_agents(const Launch& launch) {
  std::map<std::string, std::vector<int>> ranks_of;
  for (int rank = 0; rank < launch.ranks; ++rank)
    ranks_of[launch.hosts[static_cast<std::size_t>(launch.rank_host[static_cast<std::size_t>(rank)])]].push_back(rank);
  agents_->watch(launch.launch, beat_folder(launch), ranks_of, restart_wait(), deadline_.end_by_ns(), launch.store_dir);
}

void JobLead::obey_signal(LaunchedRanks& ranks) {
  const int stop_signal = wait_for_stop_signal(look_interval_ms);
  if (stop_signal == SIGTERM && !cancelled_) {
    cancelled_ = true;
    // Slurm ends a job with its node, and its lead soon after: ranks that wait for that node have nothing to save, and
    // the round that asks for another job has to be made while there is time.
    if (agents_)
      lost_with_job_ = guard_.lost_host_at(clock_.monotonic_ns() / 1'000'000, rank_observations(), host_observations());
    if (agents_ && !lost_with_job_)
      lost_with_job_ = leadership_.lost_by_scheduler(*agents_, hosts_, watch_.newest_step());
    if (lost_with_job_) {
      log_.warn(format("event=stop_requested why='{}' next=record", lost_with_job_->cause));
      return;
    }
    log_.info("event=stop_requested next=stop_ranks");
    deadline_.allow_grace();  // also where a notice before the wall time had given them longer
    pass_on_end_time();
    ranks.stop(agents_.get());
  } else if (stop_signal == SIGUSR1 && !wall_time_over_ && !cancelled_) {
    wall_time_over_ = true;
    log_.info("event=wall_time_nearly_over next=stop_ranks");
    deadline_.allow_what_is_left();
    pass_on_end_time();
    ranks.stop(agents_.get());
    // A preemption gives the same signal (PreemptParameters=send_user_signal), and much less time.
    deadline_.ask_again();
  }
}

Result<LaunchOutcome> JobLead::watch(LaunchedRanks& ranks) {
  const auto limit_ms = static_cast<std::int64_t>(lead_.attempt.time_limit_s * 1000);
  const Deadline limit(clock_, limit_ms);
  MilestoneWatch milestones(lead_.attempt, lead_.task, clock_);
  LaterAttempt later(lead_.attempt, clock_);
  for (;;) {
    // Ranks that end for a larger layout are in no hurry; one that hangs meanwhile is found as ever.
    LH_TRY(const auto end,
           ranks.poll(growing_.empty() ? deadline_.grace_s() : lead_.attempt.resiliency.startup.value, {}));
    look_at_agents();
    // Whose ranks they were is another lead's to say, if there is one.
    if (end && !leadership_.has_majority(agents_.get(), hosts_)) (void)leadership_.check_superseded(agents_.get());
    if (superseded()) {
      log_.warn("event=superseded next=leave_ranks_to_the_new_lead");
      ranks.release();
      return LaunchOutcome{};
    }
    look_at_ranks();
    look_at_health();
    orders_.look(first_rank_);
    look_at_interval();
    look_at_stacks();
    old_launches_.look();
    inject_faults();
    const bool by_itself = end && !end->ok() && !cancelled_ && !wall_time_over_;
    if (end) return LaunchOutcome{*end, by_itself ? restart_order_.failed(rank_observations()) : std::nullopt};
    look_at_growth(ranks);
    if (const auto finding = look_for_faults()) {
      const bool stuck = finding->kind == GuardFinding::Kind::stuck_collective;
      if (stuck || finding->kind == GuardFinding::Kind::hang) finish_stacks();
      if (restart_in_process(*finding)) continue;
      // Its own cut looks like the loss of all others: ranks that another lead has adopted are not ended.
      if (leadership_.check_superseded(agents_.get())) continue;
      LH_TRY(const LaunchEnd put, put_down(ranks, *finding));
      const auto before = restart_order_.failed(rank_observations());
      return LaunchOutcome{put, before ? before : finding};
    }
    if (!cancelled_) leave_to_later(later.look(), ranks);
    if (milestones.look()) rounds_.ask();
    rounds_.look();
    if (limit_ms > 0 && limit.passed() && !time_limit_passed_ && !cancelled_) {
      time_limit_passed_ = true;
      log_.warn("event=time_limit next=stop_ranks");
      ranks.stop(agents_.get());
    }
    obey_signal(ranks);
    look_at_end_time();
    if (lost_with_job_) {
      LH_TRY(const LaunchEnd put, put_down(ranks, *lost_with_job_));
      return LaunchOutcome{put, lost_with_job_};
    }
  }
}

// What this job still wrote would be written over, or write over that of the one that goes on.
void JobLead::leave_to_later(int attempt, LaunchedRanks& ranks) {
  if (attempt == 0) return;
  cancelled_ = true;
  fail(format("attempt {} of this stage has begun: this one ends", attempt));
  log_.warn("event=later_attempt next=stop_ranks cause='" + record_.cause + "'");
  ranks.stop(agents_.get());
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

Result<LaunchEnd> JobLead::put_down(LaunchedRanks& ranks, const GuardFinding& finding) {
  std::optional<LaunchEnd> end;
  const bool by_rank = finding.kind == GuardFinding::Kind::rank_ended;
  const Deadline sees(clock_, by_rank ? launcher_sees_ms : 0);
  const Deadline launcher(clock_, by_rank ? launcher_ends_ms : 0);
  const std::int64_t begun_ns = clock_.monotonic_ns();
  std::int64_t next_kill_ns = 0;
  bool killed = false, logged = false;
  for (;;) {
    if (!end) {
      LH_TRY(end, ranks.poll(0, finding.rank < 0 ? finding.host : std::string()));
    }
    if ((end || sees.passed()) && clock_.monotonic_ns() >= next_kill_ns) {
      ranks.signal(watch_.alive(), SIGKILL, agents_.get());
      next_kill_ns = clock_.monotonic_ns() + kill_again_ms * 1'000'000;
    }
    look_at_agents();
    look_at_ranks();
    std::vector<int> alive = watch_.alive();
    std::erase_if(alive, [&](int rank) { return watch_.host_of(rank) == finding.host && finding.rank < 0; });
    if (lost_with_job_) alive.clear();  // the scheduler ends what is left of them
    if (end && alive.empty()) break;
    if (!end && !killed && launcher.passed()) {
      ranks.kill();
      killed = true;
    }
    if (end || ranks.adopted()) {
      const std::int64_t killed_ms = (clock_.monotonic_ns() - begun_ns) / 1'000'000;
      const TeardownView view = look_at_teardown(alive, killed_ms);
      if (!view.waits_for.empty() && !std::exchange(logged, true)) report_teardown(view);
      if (view.over || (killed_ms >= ends_within_ms && ends_soon())) {
        if (!end) end = LaunchEnd{finding.rank, ExitStatus{-1, SIGKILL}, {}};
        leave_for_teardown(view);
        break;
      }
    }
    clock_.sleep_ms(10);
  }
  return *end;
}

TeardownView JobLead::look_at_teardown(const std::vector<int>& alive, std::int64_t killed_ms) const {
  std::map<std::string, HostTeardown> of_hosts;
  for (const int rank : alive) {
    HostTeardown& one = of_hosts[watch_.host_of(rank)];
    one.host = watch_.host_of(rank);
    ++one.alive;
    one.blocked |= watch_.rank(rank)->state == ProcessState::blocked;
  }
  std::vector<HostTeardown> left;
  for (auto& [host, one] : of_hosts) left.push_back(std::move(one));
  TeardownOptions options;
  const ResiliencySettings& settings = lead_.attempt.resiliency;
  options.leave_after_ms = static_cast<std::int64_t>(settings.ranks_gone.value * 1000);
  options.patience_ms = std::max(options.leave_after_ms, static_cast<std::int64_t>(settings.startup.value * 1000));
  return judge_teardown(killed_ms, left, static_cast<int>(spec_.launch.hosts.size()), options);
}

void JobLead::report_teardown(const TeardownView& view) {
  WarningEvent warning;
  warning.kind = "ranks_stay";
  warning.fault_class = to_string(FaultClass::file_system);
  warning.text = view.waits_for + "; waits for them, and blames no node";
  report_warning(std::move(warning));
}

void JobLead::leave_for_teardown(const TeardownView& view) {
  for (const std::string& host : view.leave) {
    log_.warn(format("event=ranks_do_not_end host={} accused={} next=leave_host", host, view.accused));
    hosts_.leave(host);
    if (!view.accused) left_unaccused_.insert(host);
  }
}

}  // namespace longhaul
