// What a lead sees of its ranks and nodes while they work, and whether it is a fault.
#include <unistd.h>

#include <utility>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/events/fault_event.h"
#include "contracts/settings/stages/alignment.h"
#include "worker/lead/job_lead.h"
#include "worker/lead/recovery/lost_start.h"

namespace longhaul {
namespace {

constexpr std::int64_t stacks_at_a_hang_ms = 2'000;

}  // namespace

// Agents look at their nodes; without them this lead has its own one looked at.
void JobLead::look_at_health() {
  const std::int64_t now_ms = clock_.wall_ms();
  std::vector<HostFinding> fresh;
  if (agents_) {
    for (const auto& [host, agent] : agents_->agents())
      for (HostFinding& found : health_.take(host, agent.report.health, now_ms)) fresh.push_back(std::move(found));
  } else {
    if (!own_health_)
      own_health_.emplace(health_watch_options(lead_.attempt, lead_.task.settings, lead_.worker_program), clock_, log_);
    own_health_->set_job_pids(job_pids());
    own_health_->look();
    fresh = health_.take(own_node(), own_health_->report(), now_ms);
  }
  for (const HostFinding& found : fresh) report_health(found);
  look_for_unwatched_gpus();
  const bool launched = record_.launches > 0;  // before that the pre-flight decides, once it has seen all of them
  if (lead_.attempt.resiliency.health == "act" && agents_ && launched) leave_unfit_spares();
}

void JobLead::look_for_unwatched_gpus() {
  const std::int64_t now_ns = clock_.monotonic_ns();
  if (lead_.attempt.gpus_per_node <= 0 || now_ns < next_unwatched_ns_) return;
  next_unwatched_ns_ = now_ns + 1'000'000'000;
  std::vector<GpuObservation> sights;
  if (own_health_) sights.push_back(gpu_observation(own_node(), own_health_->report()));
  if (agents_)
    for (const auto& [host, agent] : agents_->agents()) sights.push_back(gpu_observation(host, agent.report.health));
  for (WarningEvent& warning : unwatched_gpus_.look(now_ns / 1'000'000, sights)) report_warning(std::move(warning));
}

// Of this node: whom this process has started is the job's as its descendant, whom a launcher has started by its page.
std::set<int> JobLead::job_pids() const {
  std::set<int> pids = {::getpid()};
  for (const auto& [rank, report] : watch_.ranks())
    if (report.beat.pid > 0 && report.state != ProcessState::ended) pids.insert(static_cast<int>(report.beat.pid));
  return pids;
}

// Nobody is put on a node that is known to be unfit.
void JobLead::leave_unfit_spares() {
  for (const std::string& host : hosts_.spares()) {
    const HostFinding* unfit = health_.unfit(host);
    if (!unfit) continue;
    log_.warn(format("event=spare_unfit host={} class={} next=leave_host", host, to_string(unfit->finding.fault)));
    hosts_.leave(host);
    leadership_.note_change();
  }
}

void JobLead::report_health(const HostFinding& found) {
  if (found.reported_often) return;
  log_.warn(format("event=health host={} class={} severity={} device='{}' what='{}'", found.host,
                   to_string(found.finding.fault), to_string(found.finding.severity), found.finding.device,
                   found.finding.what));
  events_.write("health", to_value(found));
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
    orders_.report_stacks(*seen);
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
  if (launched_ns_ > 0 && watch_.newest_step() >= 0)
    launch_takes_ms_ = (clock_.monotonic_ns() - std::exchange(launched_ns_, 0)) / 1'000'000;
  if (const auto recovered = recovery_.look(clock_.monotonic_ns() / 1'000'000, watch_.ranks()))
    events_.write(recovered_event_kind, to_value(*recovered));
}

void JobLead::inject_faults() {
  if (!injector_) return;
  for (const Order& order : orders_.take_faults()) orders_.report_fault(order, injector_->take(order));
  injector_->look({spec_.launch, watch_, agents_.get(), leadership_.standby(), own_node(), started_here_,
                   own_health_ ? &own_health_->report() : nullptr, &beat_sockets_});
}

// All ranks of the launch: one that nothing was seen of yet is also one to wait for.
std::vector<RankObservation> JobLead::rank_observations() const {
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

std::vector<HostObservation> JobLead::host_observations() const {
  std::vector<HostObservation> sights;
  if (!agents_) return sights;
  const std::int64_t now = clock_.monotonic_ns();
  // Without another node to go on with a finding is only reported: if it was right, the ranks will say so themselves,
  // and if it was not, it has cost nothing.
  const ResiliencySettings& settings = lead_.attempt.resiliency;
  const bool may_leave =
      settings.health == "act" && settings.restarts > 0 && lead_.attempt.steps.empty() && !hosts_.spares().empty();
  for (const auto& [host, agent] : agents_->agents()) {
    if (!hosts_.is_working(host)) continue;
    const bool stands = agent.connected || agent.unanswered;
    HostObservation sight{host, agent.heard_ns > 0, stands, 0, 0, FaultClass::none, {}, agent_comes(host)};
    if (const HostFinding* unfit = health_.unfit(host); unfit && may_leave)
      sight.unfit = unfit->finding.fault, sight.unfit_why = observe_health(unfit->finding, host, unfit->at_ms).what;
    if (agent.heard_ns > 0) sight.silent_ms = (now - agent.heard_ns) / 1'000'000;
    if (!stands && agent.lost_ns > 0) sight.apart_ms = (now - agent.lost_ns) / 1'000'000;
    sights.push_back(sight);
  }
  return sights;
}

void JobLead::begin_watch() {
  watch_.new_launch(spec_.launch, page_folders(spec_.launch, lead_.attempt.steps), restart_wait());
  guard_.new_launch(clock_.monotonic_ns() / 1'000'000, spec_.launch.epoch);
  restart_order_.over();
  growth_.new_launch(clock_.monotonic_ns() / 1'000'000);
  training_.new_launch(spec_.launch.launch,
                       peers_of(spec_.launch, rollout_ranks_of(lead_.task.kind, lead_.task.settings)));
  orders_.new_launch();
  first_rank_.new_launch(agents_.get());
}

// Ranks that were asked to stop are left alone: they end, each at its own time, or are ended after the grace.
std::optional<GuardFinding> JobLead::look_for_faults() {
  if (cancelled_ || time_limit_passed_ || wall_time_over_) return std::nullopt;
  const std::vector<RankObservation> sights = rank_observations();
  if (!leadership_.has_majority(agents_.get(), hosts_)) {
    guard_.note_progress(clock_.monotonic_ns() / 1'000'000, sights);
    return std::nullopt;
  }
  look_at_training(sights);
  const std::int64_t now_ms = clock_.monotonic_ns() / 1'000'000;
  const auto demand = lost_start(training_.demand(), spec_.launch.launch_dir, launched_ns_, now_ms, sights, guard_);
  const auto seen = guard_.look(now_ms, sights, host_observations(), demand);
  const auto found = restart_order_.fault_of(seen, now_ms, sights);
  for (const WarningEvent& warning : guard_.warnings()) report_warning(warning);
  if (const auto& suspicion = guard_.suspicion()) report_suspicion(*suspicion);
  if (guard_.suspicion_over()) log_.info(format("event=hang_over launch={}", record_.launches));
  // Ranks that were asked to save and end take each other along; whether they had saved is seen when all are gone.
  if (!found || (!growing_.empty() && found->kind == GuardFinding::Kind::rank_ended)) return found;
  log_.warn(format("event=fault_found launch={} rank={} host={} detect_s={:.2f} cause='{}'", record_.launches,
                   found->rank, found->host, found->detect_s, found->cause));
  recovery_.fault(now_ms, found->detect_s, watch_.newest_step());
  return found;
}

void JobLead::hear(const std::vector<Event>& events) {
  event_facts_.take(events);
  timeouts_->take(events);
  guard_.take(events);
  for (const WarningEvent& warning : timeouts_->look()) report_warning(warning);
  for (const WarningEvent& warning : training_.take(events)) report_warning(warning);
  skipped_.take(events);
  note_growth(events);
  if (interval_) interval_->take(events);
  if (goodput_) goodput_->take(events, clock_.monotonic_ns() / 1'000'000);
  report_skipped();
}

// `recovered` is read as belonging to the fault before it: one that is not over yet comes first.
void JobLead::report_skipped() {
  if (recovery_.under_way()) return;
  for (const SkippedSteps::Report& report : skipped_.news()) {
    events_.write(report.fault ? fault_event_kind : recovered_event_kind, report.line());
    if (!report.fault) continue;
    log_.warn(format("event=fault launch={} cause='{}' tier={} next='{}' reason='{}'", report.fault->launch,
                     report.fault->cause, report.fault->tier, report.fault->next, report.fault->reason));
  }
}

void JobLead::look_at_training(const std::vector<RankObservation>& sights) {
  hear(tail_.look());
  for (const WarningEvent& warning : training_.look(sights, static_cast<int>(hosts_.spares().size())))
    report_warning(warning);
  if (first_rank_.ready() && training_.wants_checkpoint()) {
    log_.info(format("event=checkpoint_ordered launch={} why='a slow host is left after it'", record_.launches));
    first_rank_.take({format("slow-{}", clock_.wall_ms()), "checkpoint", 0});
  }
}

void JobLead::report_warning(WarningEvent warning) {
  warning.launch = record_.launches;
  log_.warn(format("event={} launch={} rank={} host={} what='{}'", warning.kind, warning.launch, warning.rank,
                   warning.host, warning.text));
  events_.write(warning.kind, to_value(warning));
}

void JobLead::report_suspicion(const HangFinding& finding) {
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

void JobLead::look_at_interval() {
  if (!interval_ || !interval_->is_due()) return;
  hear(tail_.look());
  interval_->poll(watch_.newest_step(), first_rank_, orders_);
}

// How long sections take is known to the next launch and the next job: beside what the stage keeps, never in it, for
// whatever changes there may be taken for progress.
std::string JobLead::learned_path() const {
  return join_path(lead_.attempt.learned_dir(), "section-times.json");
}
void JobLead::keep_learned_times() {
  Status kept = make_directories(lead_.attempt.learned_dir());
  if (kept.ok()) kept = write_file_renamed(learned_path(), to_json(guard_.learned().to_value()) + "\n");
  if (!kept.ok()) log_.warn("event=section_times_not_kept error='" + kept.error().message() + "'");
}

}  // namespace longhaul
