#include "worker/lead/monitor/launch_guard.h"

#include <algorithm>

#include "base/text/text.h"
#include "contracts/control/control_times.h"
#include "resiliency/stage_timeouts.h"

namespace longhaul {
namespace {

// One that has not beaten yet is left to its launcher for so long, which knows more of its end. Not for ever: an mpirun
// whose rank is killed while ranks still find each other may wait for good, with no rank left.
constexpr std::int64_t launcher_reports_ms = 2'000;

// A rank that has said that it failed writes what it still has to and meets the others for ten seconds at most.
constexpr std::int64_t failed_ends_ms = 30'000;

// An mpirun that goes with its node takes ranks of other nodes with it: the node has to be reported, and not they. A
// lead that has just taken over sees those ranks for the first time, and takes a second longer for it.
constexpr std::int64_t ended_by_node_ms = 3'000;
bool is_one_just_apart(const std::vector<RankObservation>& ranks, const std::vector<HostObservation>& hosts) {
  return std::any_of(hosts.begin(), hosts.end(), [&](const HostObservation& host) {
    return host.ever_heard && !host.connected && host.apart_ms < ended_by_node_ms &&
           std::any_of(ranks.begin(), ranks.end(), [&](const RankObservation& rank) { return rank.host == host.host; });
  });
}

double seconds(std::int64_t ms) {
  return static_cast<double>(ms) * 1e-3;
}

}  // namespace

bool has_not_started(const std::vector<RankObservation>& ranks) {
  return std::ranges::all_of(ranks, [](const RankObservation& rank) {
    return rank.seen && rank.beat.section == beat_start && rank.process == ProcessState::running;
  });
}

LaunchGuard::LaunchGuard(const ResiliencySettings& settings, bool own_program, LearnedTimes learned)
    : settings_(settings),
      own_program_(own_program),
      hangs_(hang_timeouts_of(settings), std::move(learned)),
      host_loss_(settings),
      stall_(step_stall_of(settings)) {}

// Steps that are done again and again are so over several of these.
void LaunchGuard::restarted(std::int64_t now_ms, std::int64_t epoch) {
  const ProgressWatch roll_backs = roll_backs_;
  begin(now_ms, epoch);
  hangs_.restarted(now_ms);
  roll_backs_ = roll_backs;
}

void LaunchGuard::new_launch(std::int64_t now_ms, std::int64_t epoch) {
  begin(now_ms, epoch);
  hangs_.new_launch(now_ms);
}

void LaunchGuard::begin(std::int64_t now_ms, std::int64_t epoch) {
  epoch_ = epoch;
  reported_ = false;
  suspicion_.reset();
  host_loss_.new_launch(now_ms);
  ended_ms_.clear();
  desyncs_.new_launch();
  stall_.new_launch(now_ms);
  roll_backs_ = ProgressWatch();
}

void LaunchGuard::adopt_launch(std::int64_t now_ms, std::int64_t epoch, std::int64_t lost_ms) {
  new_launch(now_ms, epoch);
  host_loss_.begun_at(std::min(now_ms, lost_ms));
}

void LaunchGuard::take(const std::vector<Event>& events) {
  for (const Event& event : events)
    if (event.kind == "checkpoint")
      hangs_.note_write(std::max(event.fields.get_number("write_s"), event.fields.get_number("stall_s")));
}

std::optional<GuardFinding> LaunchGuard::look(std::int64_t now_ms, std::vector<RankObservation> ranks,
                                              const std::vector<HostObservation>& hosts,
                                              const std::optional<GuardFinding>& demand) {
  host_loss_.note_look(now_ms);
  note_progress(now_ms, ranks);
  suspicion_.reset();
  warnings_.clear();
  if (reported_) return std::nullopt;
  std::optional<GuardFinding> found =
      host_loss_.find(ranks, hosts, {hangs_.limits().learned(), hangs_.limits().step_s()});
  if (!found && own_program_ && !is_one_just_apart(ranks, hosts)) found = ended_rank(now_ms, ranks);
  if (!found) found = unfit_host(ranks, hosts);  // before a fault that it may be the cause of
  if (!found && own_program_) found = faulted_rank(ranks);
  const std::size_t all = ranks.size();
  ranks = at_work(std::move(ranks));
  if (!found) found = desynchronised(now_ms, ranks);
  if (!found) found = hang(now_ms, ranks, ranks.size() < all);
  if (!found) found = no_progress(now_ms, ranks);
  if (!found) found = demand;
  reported_ = found.has_value();
  return found;
}

std::optional<GuardFinding> LaunchGuard::lost_host_at(std::int64_t now_ms, const std::vector<RankObservation>& ranks,
                                                      const std::vector<HostObservation>& hosts) {
  host_loss_.set_now(now_ms);  // what the sights say is counted whole, however long nobody asked
  note_progress(now_ms, ranks);
  return host_loss_.find(ranks, hosts, {hangs_.limits().learned(), hangs_.limits().step_s()});
}

// Its ranks may go on for a while, or stand in a call of the driver for good: nobody waits to see which.
std::optional<GuardFinding> LaunchGuard::unfit_host(const std::vector<RankObservation>& ranks,
                                                    const std::vector<HostObservation>& hosts) const {
  for (const HostObservation& host : hosts) {
    if (host.unfit == FaultClass::none) continue;
    const bool has_ranks =
        std::any_of(ranks.begin(), ranks.end(), [&](const RankObservation& rank) { return rank.host == host.host; });
    if (!has_ranks) continue;
    GuardFinding found;
    found.kind = GuardFinding::Kind::unhealthy;
    found.host = host.host, found.fault = host.unfit;
    for (const RankObservation& rank : ranks) found.step = std::max(found.step, rank.beat.step);
    found.cause = format("node {} is not fit to work on: {}", host.host, host.unfit_why);
    return found;
  }
  return std::nullopt;
}

// The one that says so first has the fault; others may say so because of it.
std::optional<GuardFinding> LaunchGuard::faulted_rank(const std::vector<RankObservation>& ranks) const {
  const RankObservation* culprit = nullptr;
  for (const RankObservation& rank : ranks) {
    if (rank.process != ProcessState::running && rank.process != ProcessState::blocked) return std::nullopt;
    const bool faulted = rank.beat.section == beat_faulted && rank.beat.epoch >= epoch_;
    if (faulted && (!culprit || rank.idle_ms > culprit->idle_ms)) culprit = &rank;
  }
  if (!culprit) return std::nullopt;
  GuardFinding found;
  found.kind = GuardFinding::Kind::faulted;
  found.rank = culprit->rank, found.host = culprit->host;
  found.section = culprit->beat.section, found.step = culprit->beat.step;
  found.detect_s = seconds(culprit->idle_ms);
  found.cause = format("rank {} has a fault at step {} that all processes survived", found.rank, found.step);
  return found;
}

std::vector<RankObservation> LaunchGuard::at_work(std::vector<RankObservation> ranks) const {
  if (!own_program_)
    std::erase_if(ranks, [](const RankObservation& rank) {
      return !rank.seen || (rank.beat.step < 0 && rank.beat.section == beat_start);
    });
  std::erase_if(ranks, [](const RankObservation& rank) { return rank.beat.section == beat_finished; });
  return ranks;
}

// Sooner than a hang: that nobody will ever come is seen from the counters, however long a section may take.
std::optional<GuardFinding> LaunchGuard::desynchronised(std::int64_t now_ms,
                                                        const std::vector<RankObservation>& ranks) {
  if (settings_.on_hang == "ignore") return std::nullopt;
  const std::optional<Desync> desync = desyncs_.observe(now_ms, ranks);
  if (!desync) return std::nullopt;
  GuardFinding found;
  found.kind = GuardFinding::Kind::desynchronised;
  found.rank = desync->behind.empty() ? ranks.front().rank : desync->behind.front();
  for (const RankObservation& rank : ranks) {
    found.step = std::max(found.step, rank.beat.step);
    found.detect_s = std::max(found.detect_s, seconds(rank.idle_ms));
    if (rank.rank == found.rank) found.host = rank.host, found.section = rank.beat.section;
  }
  found.cause = desync->text;
  warn("desynchronised", "desynchronised", found);
  if (settings_.on_hang == "report") return std::nullopt;
  return found;
}

// Programs of others may count steps anew for every pass over their data: they are only warned about.
std::optional<GuardFinding> LaunchGuard::no_progress(std::int64_t now_ms, const std::vector<RankObservation>& ranks) {
  if (settings_.on_hang == "ignore" || ranks.empty()) return std::nullopt;
  GuardFinding found;
  found.kind = GuardFinding::Kind::no_progress;
  const auto stall = stall_.observe(now_ms, ranks, hangs_.limits().learned());
  for (const RankObservation& rank : ranks) found.step = std::max(found.step, rank.beat.step);
  const auto circles = roll_backs_.at_step(found.step);
  if (stall) {
    found.rank = stall->rank, found.host = stall->host, found.section = stall->section;
    found.detect_s = stall->stalled_s;
    found.cause = stall->text();
  } else if (circles) {
    found.cause = *circles;
  } else {
    return std::nullopt;
  }
  warn("no_progress", "no_progress", found);
  const bool act = circles || stall->level == HangLevel::act;
  if (!act || !own_program_ || settings_.on_hang == "report") return std::nullopt;
  return found;
}

void LaunchGuard::warn(const char* kind, const char* fault_class, const GuardFinding& found) {
  WarningEvent event;
  event.kind = kind, event.fault_class = fault_class;
  event.rank = found.rank, event.host = found.host;
  event.step = found.step, event.text = found.cause;
  warnings_.push_back(std::move(event));
}

std::optional<GuardFinding> LaunchGuard::hang(std::int64_t now_ms, const std::vector<RankObservation>& ranks,
                                              bool finished) {
  if (settings_.on_hang == "ignore") return std::nullopt;
  const auto finding = ranks.empty() ? std::nullopt : hangs_.observe(now_ms, ranks);
  if (!finding) return std::nullopt;
  if (finding->level == HangLevel::suspect || settings_.on_hang == "report") {
    suspicion_ = finding;
    return std::nullopt;
  }
  GuardFinding found;
  found.kind = GuardFinding::Kind::hang;
  found.detect_s = finding->idle_s;
  found.section = finding->section, found.rank = finding->rank;
  if (!finding->culprits.empty()) {
    const Culprit& culprit = finding->culprits.front();
    found.rank = culprit.rank, found.section = culprit.section;
  }
  found.cause = finding->text();
  found.of_storage = finding->of_storage;
  if (finding->stuck.found && !finished && !found.of_storage) stuck_in_collective(*finding, found);
  if (has_not_started(ranks)) {  // which of them keeps the others a library knows at best
    found.rank = -1;
    found.cause =
        format("no rank has come past its start for {:.0f} s (timeout {:.0f} s)", found.detect_s, finding->timeout_s);
  }
  for (const RankObservation& rank : ranks) {
    found.step = std::max(found.step, rank.beat.step);
    if (rank.rank == found.rank) found.host = rank.host, found.process = rank.process;
  }
  return found;
}

// Nobody is to blame but one that is stuck inside a call, for the others still look whether their wait has ended.
void LaunchGuard::stuck_in_collective(const HangFinding& finding, GuardFinding& found) {
  found.kind = GuardFinding::Kind::stuck_collective;
  found.rank = finding.stuck.out_of_reach;
  found.cause =
      format("all ranks live and wait in {} since {:.1f} s, and nobody stands outside of it (timeout {:.1f} s)",
             finding.stuck.where, finding.idle_s, finding.timeout_s);
  if (found.rank < 0) return;
  found.no_order = format("rank {} is stuck inside a call and hears no order", found.rank);
  found.cause += format("; rank {} is stuck inside a call", found.rank);
}

// Of several the one that ended while the others still worked: whose page has been still for longest. One that says
// that it failed and does not end, as a library may want to meet the others first, counts as well: they wait for it.
std::optional<GuardFinding> LaunchGuard::ended_rank(std::int64_t now_ms, const std::vector<RankObservation>& ranks) {
  const RankObservation* culprit = nullptr;
  for (const RankObservation& rank : ranks) {
    const std::string& section = rank.beat.section;
    const bool lingers = starts_with(section, beat_failed) && rank.idle_ms >= failed_ends_ms;
    if ((rank.process != ProcessState::ended && !lingers) || section == beat_finished) continue;
    const std::int64_t ended_ms = ended_ms_.try_emplace(rank.rank, now_ms).first->second;
    if (section == beat_start && now_ms - ended_ms < launcher_reports_ms) continue;
    if (!culprit || rank.idle_ms > culprit->idle_ms) culprit = &rank;
  }
  if (!culprit) return std::nullopt;
  GuardFinding found;
  found.kind = GuardFinding::Kind::rank_ended;
  found.rank = culprit->rank, found.host = culprit->host;
  found.section = culprit->beat.section, found.step = culprit->beat.step;
  found.detect_s = seconds(culprit->idle_ms);
  const bool ended = culprit->process == ProcessState::ended;
  found.cause = ended ? format("the process of rank {} on {} has ended", found.rank, found.host)
                      : format("rank {} on {} has failed and does not end", found.rank, found.host);
  return found;
}

}  // namespace longhaul
