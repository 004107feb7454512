#include "resiliency/detect/hang/hang_detector.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/text/text.h"

namespace longhaul {

std::string HangFinding::text() const {
  std::string all = format("{}: ", to_string(level));
  all += culprits.empty() ? format("rank {} stands in section {}", rank, section) : culprits.front().reason;
  all += format(" (no movement for {:.1f} s, timeout {:.1f} s)", idle_s, timeout_s);
  if (!culprits.empty() && !culprits.front().certain) all += "; likely, not certain";
  return all;
}

namespace {

struct Judged {
  std::size_t index = 0;
  HangLevel level = HangLevel::suspect;
  double idle_s = 0, timeout_s = 0;
};

// Everything that one look at a launch is judged by.
struct Look {
  std::int64_t now_ms;
  const std::vector<RankObservation>& ranks;
  const WaitGraph& graph;
  const RankMovement& movement;
  const StandstillLimits& limits;
  const CulpritOptions& options;

  double idle_s(const RankObservation& seen) const { return movement.idle_s(now_ms, seen); }
};

// For how long a rank may stand still. What is suspected is only reported, so a wait for storage needs no patience.
double allowed_s(const Look& look, HangLevel level, const RankObservation& seen) {
  const double by_section = look.limits.seconds(level, seen.beat.section);
  const bool patient = by_section > 0 && level == HangLevel::act && look.movement.waits_for_storage(seen);
  return patient ? std::max(by_section, look.limits.startup_s()) : by_section;
}

// The longest time that some other rank may still stay where it is. A rank whose program does not say whether it waits
// may be waiting for that one.
double longest_allowed_elsewhere(const Look& look, HangLevel level) {
  double longest = 0;
  for (const RankObservation& r : look.ranks) {
    if (!r.seen || r.process == ProcessState::ended) continue;
    const double allowed = allowed_s(look, level, r);
    if (allowed > 0 && look.idle_s(r) < allowed) longest = std::max(longest, allowed);
  }
  return longest;
}

// For how long all members of each communicator have stood still.
using GroupTimes = std::unordered_map<std::string_view, double>;

GroupTimes group_times(const Look& look) {
  struct Span {
    std::int64_t moved_ms, known_until_ms;  // the last movement of any; until when something is known of all
  };
  std::unordered_map<std::string_view, Span> spans;
  for (const RankObservation& seen : look.ranks)
    for (const BeatCommunicator& c : seen.beat.communicators) {
      const Span own{look.movement.moved_ms(seen.rank), look.movement.known_until_ms(look.now_ms, seen)};
      Span& group = spans.try_emplace(c.name, own).first->second;
      group = {std::max(group.moved_ms, own.moved_ms), std::min(group.known_until_ms, own.known_until_ms)};
    }
  GroupTimes times;
  for (const auto& [name, span] : spans) times[name] = 1e-3 * static_cast<double>(span.known_until_ms - span.moved_ms);
  return times;
}

// The rules of hang_detector.h for one level, rank by rank.
class Judge {
 public:
  Judge(const Look& look, HangLevel level) : look_(look), level_(level), groups_(group_times(look)) {}

  // The rank whose time is over and that most others wait for.
  std::optional<Judged> worst() const {
    std::optional<Judged> worst;
    for (std::size_t i = 0; i < look_.ranks.size(); ++i) {
      const std::optional<Judged> judged = of(i);
      if (judged && (!worst || look_.graph.nodes[i].waiters > look_.graph.nodes[worst->index].waiters)) worst = judged;
    }
    return worst;
  }

 private:
  std::optional<Judged> of(std::size_t index) const {
    const WaitGraph::Node& node = look_.graph.nodes[index];
    const RankObservation& seen = look_.ranks[index];
    if (auto stopped = of_stopped(index)) return stopped;
    if (node.waits && node.end >= 0) return std::nullopt;  // who keeps it waiting is judged
    if (node.waits) {
      // All have come, or wait for each other. The last may have come just now: the whole group has to stand still.
      const auto group = groups_.find(node.communicator);
      const double idle = group == groups_.end() ? 0 : group->second;
      return if_over(index, idle, look_.limits.seconds(level_, seen.beat.section));
    }
    return is_gone(index) ? of_gone(index) : of_running(index);
  }

  std::optional<Judged> if_over(std::size_t index, double idle, double timeout) const {
    if (timeout <= 0 || idle < timeout) return std::nullopt;
    return Judged{index, level_, idle, timeout};
  }

  std::optional<Judged> of_stopped(std::size_t index) const {
    const RankObservation& seen = look_.ranks[index];
    const std::optional<double> stopped_s = look_.movement.stopped_s(seen);
    const double by_section = look_.limits.seconds(level_, seen.beat.section);
    if (!stopped_s || by_section <= 0) return std::nullopt;
    const double suspect = look_.limits.suspect_s();
    const double of_level = level_ == HangLevel::suspect ? suspect : std::max(look_.limits.act_floor_s(), suspect);
    return if_over(index, *stopped_s, std::min(of_level, by_section));
  }

  // It cannot go on by itself, and that is no matter of its section.
  bool is_gone(std::size_t index) const {
    const RankObservation& seen = look_.ranks[index];
    return look_.graph.nodes[index].silent || seen.process == ProcessState::ended || is_held(seen.process) ||
           seen.unpolled_ms >= look_.options.unpolled_after_ms;
  }

  std::optional<Judged> of_running(std::size_t index) const {
    const WaitGraph::Node& node = look_.graph.nodes[index];
    const RankObservation& seen = look_.ranks[index];
    const double idle = look_.idle_s(seen);
    if (!seen.seen) return node.broken ? if_over(index, idle, look_.limits.startup_s()) : std::nullopt;
    const double own = allowed_s(look_, level_, seen);
    if (own <= 0 || seen.beat.waits_in != beat_waits_unknown || node.waiters > 0) return if_over(index, idle, own);
    return if_over(index, idle, std::max(own, longest_allowed_elsewhere(look_, level_)));
  }

  // Something is wrong with it, whatever its section is: it is suspected as soon as anybody stands still because of it.
  std::optional<Judged> of_gone(std::size_t index) const {
    const WaitGraph::Node& node = look_.graph.nodes[index];
    const RankObservation& seen = look_.ranks[index];
    const auto over_its_time = [&](const RankObservation& who) {
      const double by_section = look_.limits.seconds(level_, who.beat.section);
      const bool soon = level_ == HangLevel::suspect && by_section > 0;
      return if_over(index, look_.idle_s(who), soon ? std::min(look_.limits.suspect_s(), by_section) : by_section);
    };
    if (node.waiters == 0) {
      const bool harmless = node.silent || seen.process == ProcessState::ended;  // perhaps only out of sight, or done
      return harmless ? std::nullopt : over_its_time(seen);
    }
    for (std::size_t i = 0; i < look_.ranks.size(); ++i)
      if (look_.graph.nodes[i].end == static_cast<int>(index))
        if (auto judged = over_its_time(look_.ranks[i])) return judged;
    return std::nullopt;
  }

  const Look& look_;
  HangLevel level_;
  GroupTimes groups_;
};

// Whether more will be known at once: a host has missed its reports and is not taken for gone yet, or a wait is polled
// no more and not taken for stuck yet. Both are decided within a second or so, one way or the other.
bool evidence_ripens(const std::vector<RankObservation>& ranks, const CulpritOptions& options) {
  return std::any_of(ranks.begin(), ranks.end(), [&](const RankObservation& seen) {
    const bool silence = seen.silent_ms > options.silent_after_ms / 2 && seen.silent_ms < options.silent_after_ms;
    const bool unpolled =
        seen.unpolled_ms >= options.unpolled_after_ms / 3 && seen.unpolled_ms < options.unpolled_after_ms;
    return silence || unpolled;
  });
}

// A rank whose program does not say whether it waits may have waited for one in a longer section: that stay of its own
// teaches nothing.
std::vector<int> perhaps_waiting(const Look& look) {
  const double elsewhere = longest_allowed_elsewhere(look, HangLevel::suspect);
  std::vector<int> ranks;
  for (const RankObservation& seen : look.ranks)
    if (seen.beat.waits_in == beat_waits_unknown &&
        elsewhere > look.limits.seconds(HangLevel::suspect, seen.beat.section))
      ranks.push_back(seen.rank);
  return ranks;
}

HangFinding finding_of(const Look& look, const Judged& judged) {
  const RankObservation& who = look.ranks[judged.index];
  HangFinding found;
  found.level = judged.level, found.idle_s = judged.idle_s, found.timeout_s = judged.timeout_s;
  found.rank = who.rank;
  if (who.seen) found.section = who.beat.section;
  found.culprits = find_culprits(look.ranks, look.graph, look.options);
  const int first = found.culprits.empty() ? who.rank : found.culprits.front().rank;
  found.of_storage = std::any_of(look.ranks.begin(), look.ranks.end(), [&](const RankObservation& seen) {
    return seen.rank == first && look.movement.waits_for_storage(seen);
  });
  found.stuck = find_stuck_collective(look.ranks, look.graph, look.options);
  return found;
}

bool has_started(const RankObservation& rank) {
  return rank.seen && rank.beat.section != beat_start;
}

}  // namespace

HangDetector::HangDetector(HangTimeouts timeouts, LearnedTimes learned, CulpritOptions options)
    : limits_(std::move(timeouts), std::move(learned)), options_(options), movement_(options) {}

void HangDetector::new_launch(std::int64_t now_ms) {
  limits_.new_launch();
  movement_.new_launch(now_ms);
  hang_.reset();
  over_ = has_begun_ = false;
  launched_ms_ = now_ms;
}

void HangDetector::restarted(std::int64_t now_ms) {
  limits_.restarted();
  movement_.restarted(now_ms);
  hang_.reset();
  over_ = false;
}

// Whether anything is heard of the launch, and one of its ranks has stood still for a while.
bool HangDetector::may_hang(std::int64_t now_ms, const std::vector<RankObservation>& ranks) const {
  double longest_s = 0;
  bool heard = false;
  for (const RankObservation& seen : ranks) {
    if (seen.process == ProcessState::ended) continue;
    longest_s = std::max(longest_s, movement_.idle_s(now_ms, seen));
    heard |= seen.seen && seen.silent_ms < options_.silent_after_ms;
  }
  return heard && longest_s >= limits_.shortest_s();
}

std::vector<RankObservation> HangDetector::with_times(std::int64_t now_ms,
                                                      const std::vector<RankObservation>& ranks) const {
  std::vector<RankObservation> now = ranks;
  for (RankObservation& seen : now) {
    seen.idle_ms = static_cast<std::int64_t>(1e3 * movement_.idle_s(now_ms, seen));
    seen.unpolled_ms = std::max(seen.unpolled_ms, movement_.unpolled_ms(seen));
  }
  return now;
}

std::optional<HangFinding> HangDetector::observe(std::int64_t now_ms, const std::vector<RankObservation>& ranks) {
  movement_.observe(now_ms, ranks, limits_);
  if (!has_begun_ && std::ranges::all_of(ranks, has_started)) {
    limits_.note_start(static_cast<double>(now_ms - launched_ms_) * 1e-3);
    has_begun_ = true;
  }
  over_ = hang_ && movement_.moved_ms(hang_->rank) > hang_->moved_ms;
  if (over_) hang_.reset();
  if (!may_hang(now_ms, ranks) || (hang_ && hang_->level == HangLevel::act)) return std::nullopt;

  const std::vector<RankObservation> now = with_times(now_ms, ranks);
  const WaitGraph graph = wait_graph(now, options_);
  const Look look{now_ms, now, graph, movement_, limits_, options_};
  for (const int rank : perhaps_waiting(look)) movement_.excuse(rank);
  std::optional<Judged> judged = Judge(look, HangLevel::act).worst();
  if (!judged && !hang_) judged = Judge(look, HangLevel::suspect).worst();
  if (!judged) return std::nullopt;
  // A suspicion names the culprit: where all are seen to wait, and who keeps them is about to show, it comes then.
  const WaitGraph::Node& node = graph.nodes[judged->index];
  if (judged->level == HangLevel::suspect && node.waits && node.end < 0 && evidence_ripens(now, options_))
    return std::nullopt;
  const int rank = now[judged->index].rank;
  hang_ = Hang{rank, movement_.moved_ms(rank), judged->level};
  return finding_of(look, *judged);
}

}  // namespace longhaul
