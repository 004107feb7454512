#include "resiliency/detect/hang/hang_detector.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/text/text.h"

namespace longhaul {

const char* to_string(HangLevel level) {
  return level == HangLevel::suspect ? "suspect" : "act";
}

std::string HangFinding::text() const {
  std::string all = format("{}: ", to_string(level));
  all += culprits.empty() ? format("rank {} stands in section {}", rank, section) : culprits.front().reason;
  all += format(" (no movement for {:.1f} s, timeout {:.1f} s)", idle_s, timeout_s);
  if (!culprits.empty() && !culprits.front().certain) all += "; likely, not certain";
  return all;
}

// FNV-1a over words; the name of the section enters by its hash.
std::uint64_t movement_mark(const BeatSnapshot& beat) {
  std::uint64_t mark = 0xcbf29ce484222325;
  const auto add = [&](std::uint64_t word) { mark = (mark ^ word) * 0x100000001b3; };
  add(static_cast<std::uint64_t>(beat.step));
  add(static_cast<std::uint64_t>(beat.epoch));
  add(static_cast<std::uint64_t>(beat.pid));
  add(std::hash<std::string>{}(beat.section));
  if (beat.section == beat_checkpoint_write) {  // ranks that wait for a write meet again and again meanwhile
    add(static_cast<std::uint64_t>(beat.written_bytes));
    return mark;
  }
  add(static_cast<std::uint64_t>(beat.waits_in));
  add(static_cast<std::uint64_t>(beat.waits_for));
  for (const BeatCommunicator& c : beat.communicators) add(c.enqueued), add(c.completed);
  return mark;
}

namespace {

constexpr std::size_t step_times_kept = 64;
// A section is allowed to take half as long again as it ever did before its ranks are suspected.
constexpr double longer_than_ever = 1.5;
// Told within 2 s or 3 step times: what is left is for the looks of agent and lead.
constexpr double suspect_least_s = 1.5, suspect_steps = 2.5;

double seconds_of(std::int64_t ms) {
  return 1e-3 * static_cast<double>(ms);
}

// It cannot go on by itself, and that is no matter of its section.
bool is_gone(const RankObservation& seen, const WaitGraph::Node& node, const CulpritOptions& options) {
  return node.silent || seen.process == ProcessState::ended || is_held(seen.process) ||
         seen.unpolled_ms >= options.unpolled_after_ms;
}

}  // namespace

HangDetector::HangDetector(HangTimeouts timeouts, LearnedTimes learned, CulpritOptions options)
    : timeouts_(std::move(timeouts)), learned_(std::move(learned)), options_(options) {}

void HangDetector::new_launch(std::int64_t now_ms) {
  learned_.begin_launch();
  was_warm_ = false;
  not_before_ms_ = 0;
  launched_ms_ = now_ms;
  tracks_.clear();
  step_times_s_.clear();
  next_step_time_ = 0;
  steps_seen_ = 0;
  hang_.reset();
  over_ = false;
}

void HangDetector::restarted(std::int64_t now_ms) {
  was_warm_ |= warm();
  launched_ms_ = not_before_ms_ = now_ms;
  tracks_.clear();
  steps_seen_ = 0;
  hang_.reset();
  over_ = false;
}

double HangDetector::step_s() const {
  if (step_times_s_.empty()) return 0;
  std::vector<double> times = step_times_s_;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

double HangDetector::base_suspect_s() const {
  return timeouts_.suspect_s > 0 ? timeouts_.suspect_s : std::max(suspect_least_s, suspect_steps * step_s());
}

double HangDetector::timeout_s(HangLevel level, const std::string& section) const {
  const SectionTimeout* const own = timeouts_.of(section);
  if (own && own->unmonitored) return 0;
  const double chosen = !own ? 0 : level == HangLevel::suspect ? own->suspect_s : own->act_s;
  const std::optional<double> longest = learned_.seconds(section);
  if (!warm() && !was_warm_) return std::max(chosen, timeouts_.startup_s);
  if (chosen > 0) return chosen;
  if (!longest) return std::max({timeouts_.startup_s, timeouts_.suspect_s, timeouts_.act_s});
  double suspect = std::max(base_suspect_s(), longer_than_ever * *longest);
  if (section == beat_checkpoint_write) suspect = std::max(suspect, timeouts_.floor_s);  // told of, and no sooner
  if (level == HangLevel::suspect) return suspect;
  const double learned = std::max(timeouts_.factor * *longest, timeouts_.floor_s);
  if (section == beat_checkpoint_write) return std::max({learned, timeouts_.act_s, timeouts_.startup_s, suspect});
  return std::max(timeouts_.act_s > 0 ? timeouts_.act_s : learned, suspect);
}

bool HangDetector::waits_for_storage(const RankObservation& seen) const {
  if (seen.beat.section == beat_checkpoint_write && !is_held(seen.process)) return true;
  return seen.process == ProcessState::blocked && (several_blocked_ || touches_files(seen.beat.section));
}

// What is suspected is only told.
double HangDetector::allowed_s(HangLevel level, const RankObservation& seen) const {
  const double by_section = timeout_s(level, seen.beat.section);
  const bool patient = by_section > 0 && level == HangLevel::act && waits_for_storage(seen);
  return patient ? std::max(by_section, timeouts_.startup_s) : by_section;
}

void HangDetector::note_step(std::int64_t now_ms, Track& track, std::int64_t step) {
  if (step == track.step) return;
  if (track.first_step < 0 || step < track.first_step) track.first_step = step;
  if (track.step >= 0 && step > track.step && warm()) {
    const double seconds = seconds_of(now_ms - track.step_ms) / static_cast<double>(step - track.step);
    if (step_times_s_.size() < step_times_kept) step_times_s_.push_back(0);
    step_times_s_[next_step_time_++ % step_times_kept] = seconds;
  }
  track.step = step, track.step_ms = now_ms;
  if (step >= 0) steps_seen_ = std::max(steps_seen_, step - track.first_step);
}

void HangDetector::follow(std::int64_t now_ms, const RankObservation& seen) {
  if (!seen.seen) return;
  const std::int64_t heard_ms = now_ms - seen.silent_ms;
  const std::int64_t page_ms = std::max(heard_ms - seen.idle_ms, not_before_ms_);
  const std::uint64_t mark = movement_mark(seen.beat);
  const auto [found, is_new] = tracks_.try_emplace(seen.rank);
  Track& track = found->second;
  const bool sane = seen.process == ProcessState::running && heard_ms - track.looked_ms <= options_.silent_after_ms;
  if (is_new || mark != track.mark) {
    // A counter moves without a time stamp: then all that is known is that it happened since the last look.
    const std::int64_t moved_ms = is_new || page_ms > track.moved_ms ? page_ms : heard_ms;
    const double stay_s = seconds_of(moved_ms - track.moved_ms);
    const bool timed = track.section != beat_checkpoint_write;
    if (!is_new && timed && track.teaches && sane && (!track.waited || stay_s < base_suspect_s()))
      learned_.note(track.section, stay_s);
    track.mark = mark, track.moved_ms = moved_ms, track.polled_ms = heard_ms;
    track.unseen_ms = track.stored_ms = 0;
    track.section = seen.beat.section;
    track.teaches = !is_new && warm();
    track.waited = false;
    note_step(moved_ms, track, seen.beat.step);
  } else if (const std::int64_t gap_ms = heard_ms - track.looked_ms; gap_ms > options_.silent_after_ms) {
    track.unseen_ms += gap_ms;
  } else if (gap_ms > 0 && waits_for_storage(seen)) {
    track.stored_ms += gap_ms;
  }
  if (seen.process != ProcessState::running || !sane) track.teaches = false;
  if (seen.process != ProcessState::stopped)
    track.stopped_ms = -1;
  else if (track.stopped_ms < track.moved_ms || heard_ms - track.looked_ms > options_.silent_after_ms)
    track.stopped_ms = heard_ms;  // also after a gap: whoever stopped the whole job stopped us as well
  if (seen.beat.waits_in >= 0) track.waited = true;
  if (seen.beat.polls != track.polls || seen.beat.waits_in < 0)
    track.polls = seen.beat.polls, track.polled_ms = heard_ms;
  track.looked_ms = std::max(track.looked_ms, heard_ms);
}

std::int64_t HangDetector::moved_ms(int rank) const {
  const auto track = tracks_.find(rank);
  return track == tracks_.end() ? launched_ms_ : track->second.moved_ms;
}

std::int64_t HangDetector::unheard_ms(const RankObservation& seen) const {
  return std::max<std::int64_t>(0, seen.silent_ms - options_.silent_after_ms / 2);
}

double HangDetector::idle_s(std::int64_t now_ms, const RankObservation& seen) const {
  const auto track = tracks_.find(seen.rank);
  std::int64_t excused_ms = 0;
  if (track != tracks_.end()) {
    excused_ms = track->second.unseen_ms;
    if (!waits_for_storage(seen)) excused_ms += track->second.stored_ms;
  }
  return std::max(0.0, seconds_of(now_ms - unheard_ms(seen) - moved_ms(seen.rank) - excused_ms));
}

// The longest time that some other rank may still stay where it is. A rank whose program does not say whether it waits
// may be waiting for that one.
double HangDetector::longest_allowed_elsewhere(std::int64_t now_ms, const std::vector<RankObservation>& ranks,
                                               HangLevel level) const {
  double longest = 0;
  for (const RankObservation& r : ranks) {
    if (!r.seen || r.process == ProcessState::ended) continue;
    const double allowed = allowed_s(level, r);
    if (allowed > 0 && idle_s(now_ms, r) < allowed) longest = std::max(longest, allowed);
  }
  return longest;
}

std::optional<HangDetector::Judged> HangDetector::judge_stopped(const RankObservation& seen, std::size_t index,
                                                                HangLevel level) const {
  const auto track = tracks_.find(seen.rank);
  if (seen.process != ProcessState::stopped || track == tracks_.end() || track->second.stopped_ms < 0)
    return std::nullopt;
  const double by_section = timeout_s(level, seen.beat.section);
  if (by_section <= 0) return std::nullopt;
  const double shortest = timeouts_.act_s > 0 ? timeouts_.act_s : timeouts_.floor_s;
  const double of_level = level == HangLevel::suspect ? base_suspect_s() : std::max(shortest, base_suspect_s());
  const double timeout = std::min(of_level, by_section);
  const double stopped_s = seconds_of(track->second.looked_ms - track->second.stopped_ms);
  if (stopped_s < timeout) return std::nullopt;
  return Judged{index, level, stopped_s, timeout};
}

std::optional<HangDetector::Judged> HangDetector::judge_one(std::int64_t now_ms,
                                                            const std::vector<RankObservation>& ranks,
                                                            const WaitGraph& graph, const GroupTimes& groups,
                                                            std::size_t index, HangLevel level) const {
  const WaitGraph::Node& node = graph.nodes[index];
  const RankObservation& seen = ranks[index];
  if (const auto stopped = judge_stopped(seen, index, level)) return stopped;
  const auto over_its_time = [&](const RankObservation& who, double timeout) -> std::optional<Judged> {
    const double idle = idle_s(now_ms, who);
    if (timeout <= 0 || idle < timeout) return std::nullopt;
    return Judged{index, level, idle, timeout};
  };
  if (node.waits && node.end >= 0) return std::nullopt;  // who keeps it waiting is judged
  if (node.waits) {
    // All have come, or wait for each other. The last may have come just now: the whole group has to stand still.
    const auto group = groups.find(node.communicator);
    const double idle = group == groups.end() ? 0 : seconds_of(group->second.heard_ms - group->second.moved_ms);
    const double timeout = timeout_s(level, seen.beat.section);
    if (timeout <= 0 || idle < timeout) return std::nullopt;
    return Judged{index, level, idle, timeout};
  }
  if (!is_gone(seen, node, options_)) {
    if (!seen.seen) return node.broken ? over_its_time(seen, timeouts_.startup_s) : std::nullopt;
    const double own = allowed_s(level, seen);
    if (own <= 0 || seen.beat.waits_in != beat_waits_unknown || node.waiters > 0) return over_its_time(seen, own);
    return over_its_time(seen, std::max(own, longest_allowed_elsewhere(now_ms, ranks, level)));
  }
  // Something is wrong with it, whatever its section is: it is suspected as soon as anybody stands still because of it.
  const auto timeout_of = [&](const RankObservation& who) {
    const double by_section = timeout_s(level, who.beat.section);
    return level == HangLevel::suspect && by_section > 0 ? std::min(base_suspect_s(), by_section) : by_section;
  };
  if (node.waiters == 0) {
    if (node.silent || seen.process == ProcessState::ended) return std::nullopt;  // perhaps only out of sight, or done
    return over_its_time(seen, timeout_of(seen));
  }
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (graph.nodes[i].end == static_cast<int>(index))
      if (const auto judged = over_its_time(ranks[i], timeout_of(ranks[i]))) return judged;
  return std::nullopt;
}

std::optional<HangDetector::Judged> HangDetector::judge(std::int64_t now_ms, const std::vector<RankObservation>& ranks,
                                                        const WaitGraph& graph, HangLevel level) const {
  GroupTimes groups;
  for (const RankObservation& seen : ranks)
    for (const BeatCommunicator& c : seen.beat.communicators) {
      const GroupTime own{moved_ms(seen.rank), now_ms - unheard_ms(seen)};
      const auto [known, is_new] = groups.try_emplace(c.name, own);
      GroupTime& group = known->second;
      if (!is_new) group = {std::max(group.moved_ms, own.moved_ms), std::min(group.heard_ms, own.heard_ms)};
    }
  std::optional<Judged> worst;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto judged = judge_one(now_ms, ranks, graph, groups, i, level);
    if (judged && (!worst || graph.nodes[i].waiters > graph.nodes[worst->index].waiters)) worst = judged;
  }
  return worst;
}

// A rank whose program does not say whether it waits may have waited for one in a longer section: that stay of its own
// teaches nothing.
void HangDetector::excuse_waiting(std::int64_t now_ms, const std::vector<RankObservation>& ranks) {
  const double elsewhere = longest_allowed_elsewhere(now_ms, ranks, HangLevel::suspect);
  for (const RankObservation& seen : ranks) {
    const auto track = tracks_.find(seen.rank);
    if (track != tracks_.end() && seen.beat.waits_in == beat_waits_unknown &&
        elsewhere > timeout_s(HangLevel::suspect, seen.beat.section))
      track->second.waited = true;
  }
}

namespace {

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

}  // namespace

std::optional<HangFinding> HangDetector::observe(std::int64_t now_ms, const std::vector<RankObservation>& ranks) {
  over_ = false;
  double longest_s = 0;
  bool heard = false;
  std::set<std::string> blocked;
  for (const RankObservation& seen : ranks)
    if (seen.process == ProcessState::blocked) blocked.insert(seen.host);
  several_blocked_ = blocked.size() > 1;
  for (const RankObservation& seen : ranks) {
    follow(now_ms, seen);
    if (seen.process == ProcessState::ended) continue;
    longest_s = std::max(longest_s, idle_s(now_ms, seen));
    heard |= seen.seen && seen.silent_ms < options_.silent_after_ms;
  }
  if (hang_ && moved_ms(hang_->rank) > hang_->moved_ms) hang_.reset(), over_ = true;
  double shortest_s = base_suspect_s();
  for (const SectionTimeout& own : timeouts_.sections)
    for (const double chosen : {own.suspect_s, own.act_s})
      if (chosen > 0) shortest_s = std::min(shortest_s, chosen);
  if (!heard || longest_s < shortest_s || (hang_ && hang_->level == HangLevel::act)) return std::nullopt;

  std::vector<RankObservation> now = ranks;
  for (RankObservation& seen : now) {
    const auto track = tracks_.find(seen.rank);
    seen.idle_ms = static_cast<std::int64_t>(1e3 * idle_s(now_ms, seen));
    if (track != tracks_.end() && seen.beat.waits_in >= 0 && seen.beat.polls > 0)
      seen.unpolled_ms = track->second.looked_ms - track->second.polled_ms;
  }
  excuse_waiting(now_ms, now);
  const WaitGraph graph = wait_graph(now, options_);
  std::optional<Judged> judged = judge(now_ms, now, graph, HangLevel::act);
  if (!judged && !hang_) judged = judge(now_ms, now, graph, HangLevel::suspect);
  if (!judged) return std::nullopt;
  // A suspicion names the culprit: where all are seen to wait, and who keeps them is about to show, it comes then.
  const WaitGraph::Node& node = graph.nodes[judged->index];
  if (judged->level == HangLevel::suspect && node.waits && node.end < 0 && evidence_ripens(now, options_))
    return std::nullopt;
  const RankObservation& who = now[judged->index];
  hang_ = Hang{who.rank, moved_ms(who.rank), judged->level};
  std::vector<Culprit> culprits = find_culprits(now, graph, options_);
  const int first = culprits.empty() ? who.rank : culprits.front().rank;
  const bool of_storage = std::any_of(now.begin(), now.end(), [&](const RankObservation& seen) {
    return seen.rank == first && waits_for_storage(seen);
  });
  return HangFinding{
      judged->level,       who.rank,   who.seen ? who.beat.section : std::string(), judged->idle_s, judged->timeout_s,
      std::move(culprits), of_storage, find_stuck_collective(now, graph, options_)};
}

}  // namespace longhaul
