#include "resiliency/detect/hang/step_stall.h"

#include <algorithm>
#include <utility>

#include "base/text/text.h"

namespace longhaul {

std::string StepStallFinding::text() const {
  return format(
      "no step was completed for {:.1f} s (at most {:.1f} s are usual), and ranks beat: rank {} on {} is in {} "
      "at step {}",
      stalled_s, timeout_s, rank, host, section, step);
}

void StepStall::new_launch(std::int64_t now_ms) {
  step_ = -1, steps_ = 0;
  step_ms_ = looked_ms_ = now_ms;
  counted_ms_ = 0;
  reported_.reset();
}

double StepStall::timeout_s(HangLevel level) const {
  const double chosen = level == HangLevel::suspect ? options_.suspect_s : options_.act_s;
  if (steps_ <= options_.warm_up_steps) return 0;
  const double learned = std::max(options_.factor * longest_s_, options_.floor_s);
  const double suspect = options_.suspect_s > 0 ? options_.suspect_s : learned;
  if (chosen > 0) return chosen;
  return level == HangLevel::suspect ? suspect : std::max({learned, suspect, options_.startup_s});
}

void StepStall::note_step(std::int64_t now_ms, std::int64_t step) {
  if (step > step_ && step_ >= 0 && ++steps_ > options_.warm_up_steps)
    longest_s_ =
        std::max(longest_s_, static_cast<double>(now_ms - step_ms_) * 1e-3 / static_cast<double>(step - step_));
  step_ = step, step_ms_ = now_ms, counted_ms_ = 0;
  reported_.reset();
}

std::optional<StepStallFinding> StepStall::observe(std::int64_t now_ms, const std::vector<RankObservation>& ranks,
                                                   const LearnedTimes& learned) {
  const std::int64_t passed_ms = now_ms - std::exchange(looked_ms_, now_ms);
  const RankObservation* behind = nullptr;
  std::int64_t newest = -1;
  bool known = true;
  for (const RankObservation& rank : ranks) {
    newest = std::max(newest, rank.beat.step);
    known &= rank.seen && rank.beat.section != beat_checkpoint_write && learned.count(rank.beat.section) > 0;
    if (rank.beat.step >= 0 && (!behind || rank.beat.step < behind->beat.step)) behind = &rank;
  }
  if (!behind) return std::nullopt;
  if (newest != step_) note_step(now_ms, newest);
  if (known) counted_ms_ += passed_ms;
  for (const HangLevel level : {HangLevel::act, HangLevel::suspect}) {
    const double timeout = timeout_s(level), stalled = static_cast<double>(counted_ms_) * 1e-3;
    if (timeout <= 0 || stalled < timeout || (reported_ && (*reported_ == level || *reported_ == HangLevel::act)))
      continue;
    reported_ = level;
    return StepStallFinding{level, newest, behind->rank, behind->host, behind->beat.section, stalled, timeout};
  }
  return std::nullopt;
}

}  // namespace longhaul
