// What a lead sees of its ranks and nodes while they work, and whether it is a fault.
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "contracts/fault_event.h"
#include "worker/lead/job_lead.h"

namespace longhaul {
namespace {

constexpr std::int64_t stacks_at_a_hang_ms = 2'000;

}  // namespace

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

void JobLead::begin_watch() {
  watch_.new_launch(spec_.launch, page_folders(spec_.launch, lead_.attempt.steps), restart_wait());
  guard_.new_launch(clock_.monotonic_ns() / 1'000'000, spec_.launch.epoch);
  training_.new_launch(spec_.launch.launch, peers_of(spec_.launch));
  orders_.new_launch();
  first_rank_.new_launch(agents_.get());
}

// Ranks that were told to stop are left alone: they end, each at its own time, or are ended after the grace.
std::optional<GuardFinding> JobLead::look_for_faults() {
  if (cancelled_ || time_limit_passed_ || wall_time_over_ || !has_majority()) return std::nullopt;
  const std::vector<RankObservation> sights = rank_sights();
  look_at_training(sights);
  const auto found = guard_.look(clock_.monotonic_ns() / 1'000'000, sights, host_sights(), training_.demand());
  for (const WarningEvent& warning : guard_.warnings()) tell_warning(warning);
  if (const auto& suspicion = guard_.suspicion()) tell_suspicion(*suspicion);
  if (guard_.suspicion_over()) log_.info(format("event=hang_over launch={}", record_.launches));
  if (!found) return found;
  log_.warn(format("event=fault_found launch={} rank={} host={} detect_s={:.2f} cause='{}'", record_.launches,
                   found->rank, found->host, found->detect_s, found->cause));
  recovery_.fault(clock_.monotonic_ns() / 1'000'000, found->detect_s, watch_.newest_step());
  return found;
}

void JobLead::look_at_training(const std::vector<RankObservation>& sights) {
  for (const WarningEvent& warning : training_.take(tail_.look())) tell_warning(warning);
  for (const WarningEvent& warning : training_.look(sights, static_cast<int>(hosts_.spares().size())))
    tell_warning(warning);
  HeartbeatPage* const page = watch_.page(0);
  if (page && training_.wants_checkpoint()) {
    log_.info(format("event=checkpoint_ordered launch={} why='a slow host is left after it'", record_.launches));
    page->order_checkpoint();
  }
}

void JobLead::tell_warning(WarningEvent warning) {
  warning.launch = record_.launches;
  log_.warn(format("event={} launch={} rank={} host={} what='{}'", warning.kind, warning.launch, warning.rank,
                   warning.host, warning.text));
  events_.write(warning.kind, to_value(warning));
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

}  // namespace longhaul
