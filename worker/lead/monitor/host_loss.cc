#include "worker/lead/monitor/host_loss.h"

#include <algorithm>

#include "base/text/text.h"
#include "contracts/control/control_times.h"
#include "resiliency/detect/hang/culprit.h"
#include "resiliency/detect/hang/process_state.h"
#include "resiliency/detect/hang/rank_movement.h"

namespace longhaul {
namespace {

// An agent whose connection was closed comes back within its retry interval (0.25 s) if its node lives.
constexpr std::int64_t gone_after_ms = 800;
// Ranks beside a lost node stand still, for they wait for its ranks: for longer than any of them ever took where it is,
// and never less than this.
constexpr std::int64_t still_after_ms = others_still_ms;
// Agents report twice a second: between reports that are farther apart a rank may have moved unseen.
constexpr std::int64_t heard_often_ms = 1'000;
// A node that nobody is known to wait for is lost after so many steps without a report.
constexpr double silent_steps = 3;

// Looks are 50 ms apart; what is longer than this is no look's own doing.
constexpr std::int64_t usual_look_ms = 250, pauses_kept_ms = 60'000;

double in_seconds(std::int64_t ms) {
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

// How long other ranks may stand still, and nothing is wrong: the longest that any section took in which one of them
// is, or one of that node's. Where a section was never timed, `untimed_ms`.
std::int64_t stillness_ms(const std::vector<RankObservation>& ranks, std::int64_t untimed_ms,
                          const LearnedTimes& times) {
  std::int64_t longest = still_after_ms;
  for (const RankObservation& rank : ranks) {
    if (!rank.seen || rank.process == ProcessState::ended || rank.beat.section == beat_finished) continue;
    const std::optional<double> learned = times.seconds(rank.beat.section);
    longest = std::max(longest, learned ? static_cast<std::int64_t>(*learned * 1000) : untimed_ms);
  }
  return longest;
}

}  // namespace

void HostLoss::new_launch(std::int64_t now_ms) {
  begun_ms_ = now_ms_ = now_ms;
  pauses_.clear();
  progress_.clear();
  longest_pause_ms_ = 0;
}

void HostLoss::note_look(std::int64_t now_ms) {
  if (now_ms - now_ms_ > usual_look_ms) pauses_.push_back({now_ms, now_ms - now_ms_ - usual_look_ms});
  std::erase_if(pauses_, [&](const Pause& pause) { return now_ms - pause.until_ms > pauses_kept_ms; });
  now_ms_ = now_ms;
}

std::int64_t HostLoss::not_looked_ms(std::int64_t silent_ms) const {
  std::int64_t sum = 0;
  for (const Pause& pause : pauses_)
    if (now_ms_ - pause.until_ms < silent_ms) sum += pause.length_ms;
  return std::min(sum, silent_ms);
}

void HostLoss::note_progress(std::int64_t now_ms, const std::vector<RankObservation>& ranks) {
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

std::int64_t HostLoss::others_still_ms(std::int64_t now_ms, const std::string& host) const {
  // Of ranks that are heard of: until their last report, for what came after it is not known yet.
  std::int64_t least = now_ms - begun_ms_;
  for (const auto& [rank, progress] : progress_) {
    if (progress.host == host) continue;
    const bool heard = progress.seen && now_ms - progress.heard_ms <= heard_of_within_ms;
    least = std::min(least, (heard ? progress.heard_ms : now_ms) - progress.at_ms);
  }
  return least;
}

// Whose ranks stand still because one of them, on a node that is heard of, is stopped, wait for that one.
bool HostLoss::is_one_held_elsewhere(const std::vector<RankObservation>& ranks, const std::string& host) const {
  const auto heard_ms = static_cast<std::int64_t>(settings_.host_silent.value * 1000);
  return std::any_of(ranks.begin(), ranks.end(), [&](const RankObservation& rank) {
    return rank.host != host && is_held(rank.process) && rank.silent_ms < heard_ms;
  });
}

bool HostLoss::is_gone(const HostObservation& host) const {
  return !host.connected && host.apart_ms - not_looked_ms(host.apart_ms) >= gone_after_ms;
}

// Nodes that fall silent together have a switch, or a file system that their agents wait for, in common.
bool HostLoss::is_one_of_several_silent(const HostObservation& host, const std::vector<RankObservation>& ranks,
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
bool HostLoss::is_lost(const HostObservation& host, const std::vector<RankObservation>& ranks,
                       const std::vector<HostObservation>& hosts, const SectionTimes& times) const {
  if (!host.ever_heard || host.agent_comes || !has_rank_on(ranks, host.host)) return false;
  const std::int64_t still_ms = others_still_ms(now_ms_, host.host);
  if (is_gone(host))
    return still_ms >= stillness_ms(ranks, still_after_ms, times.learned) ||
           (still_ms >= still_after_ms && others_wait_for(ranks, host.host));
  const auto silent_ms = static_cast<double>(unheard_ms(host));
  if (silent_ms < settings_.host_silent.value * 1000 ||
      still_ms < stillness_ms(ranks, longest_pause_ms_, times.learned))
    return false;
  if (is_one_held_elsewhere(ranks, host.host)) return false;
  if (is_one_of_several_silent(host, ranks, hosts)) return silent_ms >= settings_.startup.value * 1000;
  return silent_ms >= silent_steps * times.step_s * 1000 || others_wait_for(ranks, host.host);
}

std::optional<GuardFinding> HostLoss::find(const std::vector<RankObservation>& ranks,
                                           const std::vector<HostObservation>& hosts, const SectionTimes& times) const {
  for (const HostObservation& host : hosts) {
    if (!is_lost(host, ranks, hosts, times)) continue;
    const bool gone = is_gone(host);
    GuardFinding found;
    found.kind = GuardFinding::Kind::host_lost;
    found.host = host.host;
    for (const RankObservation& rank : ranks) found.step = std::max(found.step, rank.beat.step);
    found.detect_s = in_seconds(host.silent_ms);
    found.cause = gone ? format("node {} is gone: its agent was lost {:.1f} s ago and does not come back", host.host,
                                in_seconds(host.apart_ms))
                       : format("node {} was not heard of for {:.1f} s", host.host, in_seconds(host.silent_ms));
    found.cause += ", and the ranks of the others stand still";
    return found;
  }
  return std::nullopt;
}

}  // namespace longhaul
