#include "worker/lead/monitor/launch_guard.h"

#include <algorithm>

#include "base/text/text.h"
#include "contracts/control/control_times.h"
#include "resiliency/stage_timeouts.h"

namespace longhaul {
namespace {

// An agent whose connection was closed comes back within its retry interval (0.25 s) if its node lives.
constexpr std::int64_t gone_after_ms = 800;
// Ranks beside a lost node stand still, for they wait for its ranks: for longer than any of them ever took where it is,
// and never less than this.
constexpr std::int64_t still_after_ms = others_still_ms;
// Agents report twice a second: between words that are farther apart a rank may have moved unseen.
constexpr std::int64_t heard_often_ms = 1'000;
// A node that nobody is known to wait for is lost after so many steps without a word.
constexpr double silent_steps = 3;

// One that has not beaten yet is left to its launcher for so long, which knows more of its end. Not for ever: an mpirun
// whose rank is killed while ranks still find each other may wait for good, with no rank left.
constexpr std::int64_t launcher_tells_ms = 2'000;

// An mpirun that goes with its node takes ranks of other nodes with it: the node has to be told of, and not they. A
// lead that has just taken over sees those ranks for the first time, and takes a second longer for it.
constexpr std::int64_t ended_by_node_ms = 3'000;
bool is_one_just_apart(const std::vector<RankObservation>& ranks, const std::vector<HostObservation>& hosts) {
  return std::any_of(hosts.begin(), hosts.end(), [&](const HostObservation& host) {
    return host.ever_heard && !host.connected && host.apart_ms < ended_by_node_ms &&
           std::any_of(ranks.begin(), ranks.end(), [&](const RankObservation& rank) { return rank.host == host.host; });
  });
}

// Looks are 50 ms apart; what is longer than this is no look's own doing.
constexpr std::int64_t usual_look_ms = 250, pauses_kept_ms = 60'000;

double seconds(std::int64_t ms) {
  return static_cast<double>(ms) * 1e-3;
}

bool has_rank_on(const std::vector<RankObservation>& ranks, const std::string& host) {
  return std::any_of(ranks.begin(), ranks.end(), [&](const RankObservation& rank) { return rank.host == host; });
}

// By what their pages say: every rank of another node is in a collective or waits for a message, and whom it waits for
// in the end is on that node.
bool others_wait_for(const std::vector<RankObservation>& ranks, const std::string& host) {
  const WaitGraph graph = wait_graph(ranks);
  bool one = false;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].host == host || ranks[i].beat.section == beat_finished) continue;
    const WaitGraph::Node& node = graph.nodes[i];
    if (node.silent) continue;
    if (!node.waits || node.end < 0 || ranks[static_cast<std::size_t>(node.end)].host != host) return false;
    one = true;
  }
  return one;
}

}  // namespace

LaunchGuard::LaunchGuard(const ResiliencySettings& settings, bool own_program, LearnedTimes learned)
    : settings_(settings),
      own_program_(own_program),
      hangs_(hang_timeouts_of(settings), std::move(learned)),
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
  told_ = false;
  suspicion_.reset();
  begun_ms_ = now_ms_ = now_ms;
  pauses_.clear();
  progress_.clear();
  longest_pause_ms_ = 0;
  ended_ms_.clear();
  desyncs_.new_launch();
  stall_.new_launch(now_ms);
  roll_backs_ = ProgressWatch();
}

void LaunchGuard::adopt_launch(std::int64_t now_ms, std::int64_t epoch, std::int64_t lost_ms) {
  new_launch(now_ms, epoch);
  begun_ms_ = std::min(now_ms, lost_ms);
}

void LaunchGuard::note_look(std::int64_t now_ms) {
  if (now_ms - now_ms_ > usual_look_ms) pauses_.push_back({now_ms, now_ms - now_ms_ - usual_look_ms});
  std::erase_if(pauses_, [&](const Pause& pause) { return now_ms - pause.until_ms > pauses_kept_ms; });
  now_ms_ = now_ms;
}

std::int64_t LaunchGuard::not_looked_ms(std::int64_t silent_ms) const {
  std::int64_t sum = 0;
  for (const Pause& pause : pauses_)
    if (now_ms_ - pause.until_ms < silent_ms) sum += pause.length_ms;
  return std::min(sum, silent_ms);
}

void LaunchGuard::note_progress(std::int64_t now_ms, const std::vector<RankObservation>& ranks) {
  for (const RankObservation& rank : ranks) {
    Progress& known = progress_.try_emplace(rank.rank, Progress{rank.host, 0, now_ms, 0}).first->second;
    if (!rank.seen) continue;
    // What a page was written for has a time; a counter has none, and has moved since the last look.
    const std::int64_t heard_ms = now_ms - std::max<std::int64_t>(0, rank.silent_ms);
    const std::int64_t page_ms = heard_ms - rank.idle_ms, before_ms = known.at_ms;
    const std::uint64_t mark = movement_mark(rank.beat);
    if (!known.seen)
      known.at_ms = page_ms;
    else if (page_ms > known.at_ms || mark != known.mark)
      known.at_ms = page_ms > known.at_ms ? page_ms : heard_ms;
    const bool watched = known.seen && heard_ms - known.heard_ms < heard_often_ms;
    if (watched) longest_pause_ms_ = std::max(longest_pause_ms_, known.at_ms - before_ms);
    known.mark = mark, known.heard_ms = heard_ms, known.seen = true;
  }
}

void LaunchGuard::take(const std::vector<Event>& events) {
  for (const Event& event : events)
    if (event.kind == "checkpoint")
      hangs_.note_write(std::max(event.fields.get_number("write_s"), event.fields.get_number("stall_s")));
}

std::int64_t LaunchGuard::others_still_ms(std::int64_t now_ms, const std::string& host) const {
  // Of ranks that are heard of: until their last report, for what came after it is not known yet.
  std::int64_t least = now_ms - begun_ms_;
  for (const auto& [rank, progress] : progress_) {
    if (progress.host == host) continue;
    const bool heard = progress.seen && now_ms - progress.heard_ms <= heard_of_within_ms;
    least = std::min(least, (heard ? progress.heard_ms : now_ms) - progress.at_ms);
  }
  return least;
}

std::int64_t LaunchGuard::stillness_ms(const std::vector<RankObservation>& ranks, std::int64_t untimed_ms) const {
  std::int64_t longest = still_after_ms;
  for (const RankObservation& rank : ranks) {
    if (!rank.seen || rank.process == ProcessState::ended || rank.beat.section == beat_finished) continue;
    const std::optional<double> learned = hangs_.learned().seconds(rank.beat.section);
    longest = std::max(longest, learned ? static_cast<std::int64_t>(*learned * 1000) : untimed_ms);
  }
  return longest;
}

std::optional<GuardFinding> LaunchGuard::look(std::int64_t now_ms, std::vector<RankObservation> ranks,
                                              const std::vector<HostObservation>& hosts,
                                              const std::optional<GuardFinding>& demand) {
  note_look(now_ms);
  note_progress(now_ms, ranks);
  suspicion_.reset();
  warnings_.clear();
  if (told_) return std::nullopt;
  std::optional<GuardFinding> found = lost_host(ranks, hosts);
  if (!found && own_program_ && !is_one_just_apart(ranks, hosts)) found = ended_rank(now_ms, ranks);
  if (!found) found = unfit_host(ranks, hosts);  // before a fault that it may be the cause of
  if (!found && own_program_) found = faulted_rank(ranks);
  const std::size_t all = ranks.size();
  ranks = at_work(std::move(ranks));
  if (!found) found = desynchronised(now_ms, ranks);
  if (!found) found = hang(now_ms, ranks, ranks.size() < all);
  if (!found) found = no_progress(now_ms, ranks);
  if (!found) found = demand;
  told_ = found.has_value();
  return found;
}

std::optional<GuardFinding> LaunchGuard::lost_host_at(std::int64_t now_ms, const std::vector<RankObservation>& ranks,
                                                      const std::vector<HostObservation>& hosts) {
  now_ms_ = now_ms;  // what the sights say is counted whole, however long nobody asked
  note_progress(now_ms, ranks);
  return lost_host(ranks, hosts);
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

// Programs of others may count steps anew for every pass over their data: of them it is only told.
std::optional<GuardFinding> LaunchGuard::no_progress(std::int64_t now_ms, const std::vector<RankObservation>& ranks) {
  if (settings_.on_hang == "ignore" || ranks.empty()) return std::nullopt;
  GuardFinding found;
  found.kind = GuardFinding::Kind::no_progress;
  const auto stall = stall_.observe(now_ms, ranks, hangs_.learned());
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

// Of several the one that ended while the others still worked: whose page has been still for longest.
std::optional<GuardFinding> LaunchGuard::ended_rank(std::int64_t now_ms, const std::vector<RankObservation>& ranks) {
  const RankObservation* culprit = nullptr;
  for (const RankObservation& rank : ranks) {
    const std::string& section = rank.beat.section;
    if (rank.process != ProcessState::ended || section == beat_finished) continue;
    const std::int64_t ended_ms = ended_ms_.try_emplace(rank.rank, now_ms).first->second;
    if (section == beat_start && now_ms - ended_ms < launcher_tells_ms) continue;
    if (!culprit || rank.idle_ms > culprit->idle_ms) culprit = &rank;
  }
  if (!culprit) return std::nullopt;
  GuardFinding found;
  found.kind = GuardFinding::Kind::rank_ended;
  found.rank = culprit->rank, found.host = culprit->host;
  found.section = culprit->beat.section, found.step = culprit->beat.step;
  found.detect_s = seconds(culprit->idle_ms);
  found.cause = format("the process of rank {} on {} has ended", found.rank, found.host);
  return found;
}

// Whose ranks stand still because one of them, on a node that is heard of, is stopped, wait for that one.
bool LaunchGuard::is_one_held_elsewhere(const std::vector<RankObservation>& ranks, const std::string& host) const {
  const auto heard_ms = static_cast<std::int64_t>(settings_.host_silent.value * 1000);
  return std::any_of(ranks.begin(), ranks.end(), [&](const RankObservation& rank) {
    return rank.host != host && is_held(rank.process) && rank.silent_ms < heard_ms;
  });
}

bool LaunchGuard::is_gone(const HostObservation& host) const {
  return !host.connected && host.apart_ms - not_looked_ms(host.apart_ms) >= gone_after_ms;
}

// Nodes that fall silent together have a switch, or a file system that their agents wait for, in common.
bool LaunchGuard::is_one_of_several_silent(const HostObservation& host, const std::vector<RankObservation>& ranks,
                                           const std::vector<HostObservation>& hosts) const {
  const double together_ms = settings_.host_silent.value * 500;
  return std::any_of(hosts.begin(), hosts.end(), [&](const HostObservation& other) {
    return other.host != host.host && other.ever_heard && !other.agent_comes && !is_gone(other) &&
           has_rank_on(ranks, other.host) && static_cast<double>(unheard_ms(other)) >= together_ms;
  });
}

// Silence alone ends no training: a node is lost when nothing is heard of it and the ranks of the others stand still,
// too. A connection that the other side has closed and that stays closed says more than one that is only silent (a cut
// that may heal): of that node others have to be seen to wait for its ranks, or nothing is heard for some steps.
bool LaunchGuard::is_lost(const HostObservation& host, const std::vector<RankObservation>& ranks,
                          const std::vector<HostObservation>& hosts) const {
  if (!host.ever_heard || host.agent_comes || !has_rank_on(ranks, host.host)) return false;
  const std::int64_t still_ms = others_still_ms(now_ms_, host.host);
  if (is_gone(host))
    return still_ms >= stillness_ms(ranks, still_after_ms) ||
           (still_ms >= still_after_ms && others_wait_for(ranks, host.host));
  const auto silent_ms = static_cast<double>(unheard_ms(host));
  if (silent_ms < settings_.host_silent.value * 1000 || still_ms < stillness_ms(ranks, longest_pause_ms_)) return false;
  if (is_one_held_elsewhere(ranks, host.host)) return false;
  if (is_one_of_several_silent(host, ranks, hosts)) return silent_ms >= settings_.startup.value * 1000;
  return silent_ms >= silent_steps * hangs_.step_s() * 1000 || others_wait_for(ranks, host.host);
}

std::optional<GuardFinding> LaunchGuard::lost_host(const std::vector<RankObservation>& ranks,
                                                   const std::vector<HostObservation>& hosts) const {
  for (const HostObservation& host : hosts) {
    if (!is_lost(host, ranks, hosts)) continue;
    const bool gone = is_gone(host);
    GuardFinding found;
    found.kind = GuardFinding::Kind::host_lost;
    found.host = host.host;
    for (const RankObservation& rank : ranks) found.step = std::max(found.step, rank.beat.step);
    found.detect_s = seconds(host.silent_ms);
    found.cause = gone ? format("node {} is gone: its agent was lost {:.1f} s ago and does not come back", host.host,
                                seconds(host.apart_ms))
                       : format("node {} was not heard of for {:.1f} s", host.host, seconds(host.silent_ms));
    found.cause += ", and the ranks of the others stand still";
    return found;
  }
  return std::nullopt;
}

}  // namespace longhaul
