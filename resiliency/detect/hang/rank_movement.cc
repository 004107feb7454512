#include "resiliency/detect/hang/rank_movement.h"

#include <algorithm>

#include "resiliency/detect/hang/file_sections.h"

namespace longhaul {

namespace {

double in_seconds(std::int64_t ms) {
  return 1e-3 * static_cast<double>(ms);
}

}  // namespace

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

void RankMovement::new_launch(std::int64_t now_ms) {
  launched_ms_ = now_ms;
  not_before_ms_ = 0;
  tracks_.clear();
}

void RankMovement::restarted(std::int64_t now_ms) {
  launched_ms_ = not_before_ms_ = now_ms;
  tracks_.clear();
}

void RankMovement::observe(std::int64_t now_ms, const std::vector<RankObservation>& ranks, StandstillLimits& limits) {
  several_blocked_ = are_several_hosts_blocked(ranks);
  for (const RankObservation& seen : ranks)
    if (seen.seen) follow(now_ms, seen, limits);
}

void RankMovement::note_step(std::int64_t now_ms, Track& track, std::int64_t step, StandstillLimits& limits) {
  if (step == track.step) return;
  if (track.first_step < 0 || step < track.first_step) track.first_step = step;
  if (track.step >= 0 && step > track.step)
    limits.note_step_time(in_seconds(now_ms - track.step_ms) / static_cast<double>(step - track.step));
  track.step = step, track.step_ms = now_ms;
  if (step >= 0) limits.note_steps(step - track.first_step);
}

void RankMovement::follow(std::int64_t now_ms, const RankObservation& seen, StandstillLimits& limits) {
  const std::int64_t heard_ms = now_ms - seen.silent_ms;
  const std::int64_t page_ms = std::max(heard_ms - seen.idle_ms, not_before_ms_);
  const std::uint64_t mark = movement_mark(seen.beat);
  const auto [found, is_new] = tracks_.try_emplace(seen.rank);
  Track& track = found->second;
  const bool sane = seen.process == ProcessState::running && heard_ms - track.looked_ms <= options_.silent_after_ms;
  if (is_new || mark != track.mark) {
    // A counter moves without a time stamp: then all that is known is that it happened since the last look.
    const std::int64_t moved_ms = is_new || page_ms > track.moved_ms ? page_ms : heard_ms;
    const double stay_s = in_seconds(moved_ms - track.moved_ms);
    const bool timed = track.section != beat_checkpoint_write;
    if (!is_new && timed && track.teaches && sane && (!track.waited || stay_s < limits.suspect_s()))
      limits.note_stay(track.section, stay_s);
    track.mark = mark, track.moved_ms = moved_ms, track.polled_ms = heard_ms;
    track.unseen_ms = track.stored_ms = 0;
    track.section = seen.beat.section;
    track.teaches = !is_new && limits.warm();
    track.waited = false;
    note_step(moved_ms, track, seen.beat.step, limits);
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

void RankMovement::excuse(int rank) {
  const auto track = tracks_.find(rank);
  if (track != tracks_.end()) track->second.waited = true;
}

const RankMovement::Track* RankMovement::track_of(int rank) const {
  const auto track = tracks_.find(rank);
  return track == tracks_.end() ? nullptr : &track->second;
}

std::int64_t RankMovement::moved_ms(int rank) const {
  const Track* const track = track_of(rank);
  return track ? track->moved_ms : launched_ms_;
}

std::int64_t RankMovement::known_until_ms(std::int64_t now_ms, const RankObservation& seen) const {
  return now_ms - std::max<std::int64_t>(0, seen.silent_ms - options_.silent_after_ms / 2);
}

double RankMovement::idle_s(std::int64_t now_ms, const RankObservation& seen) const {
  std::int64_t idle_ms = known_until_ms(now_ms, seen) - moved_ms(seen.rank);
  if (const Track* const track = track_of(seen.rank)) {
    idle_ms -= track->unseen_ms;
    if (!waits_for_storage(seen)) idle_ms -= track->stored_ms;
  }
  return std::max(0.0, in_seconds(idle_ms));
}

std::optional<double> RankMovement::stopped_s(const RankObservation& seen) const {
  const Track* const track = track_of(seen.rank);
  if (seen.process != ProcessState::stopped || !track || track->stopped_ms < 0) return std::nullopt;
  return in_seconds(track->looked_ms - track->stopped_ms);
}

std::int64_t RankMovement::unpolled_ms(const RankObservation& seen) const {
  const Track* const track = track_of(seen.rank);
  if (!track || seen.beat.waits_in < 0 || seen.beat.polls == 0) return -1;
  return track->looked_ms - track->polled_ms;
}

bool RankMovement::waits_for_storage(const RankObservation& seen) const {
  return longhaul::waits_for_storage(seen, several_blocked_);
}

}  // namespace longhaul
