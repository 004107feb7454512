#include "resiliency/detect/hang/hang_timeouts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text/text.h"
#include "resiliency/beat/heartbeat_page.h"

namespace longhaul {

namespace {

constexpr std::size_t step_times_kept = 64;
// A section is allowed to take half as long again as it ever did before its ranks are suspected.
constexpr double longer_than_ever = 1.5;
// Reported within 2 s or 3 step times: what is left is for the looks of agent and lead.
constexpr double suspect_least_s = 1.5, suspect_steps = 2.5;
// What a later launch of a job may take to start. Five minutes are a node with cold caches.
constexpr double start_least_s = 300, start_factor = 10;

}  // namespace

const SectionTimeout* HangTimeouts::of(const std::string& section) const {
  for (const SectionTimeout& one : sections)
    if (one.section == section) return &one;
  return nullptr;
}

std::vector<Error> judge_timeouts(const HangTimeouts& t) {
  std::vector<Error> errors;
  const auto wrong = [&](const std::string& what, const std::string& hint) {
    errors.push_back(make_error(ErrorCode::invalid_input, what, hint));
  };
  const auto must_not_be_negative = [&](const std::string& name, double value) {
    if (!std::isfinite(value) || value < 0)
      wrong(format("{} = {:g} s is no time", name, value), "give seconds, or 0 to leave it to the rules");
  };
  must_not_be_negative("suspect", t.suspect_s);
  must_not_be_negative("act", t.act_s);
  must_not_be_negative("the floor of learned timeouts", t.floor_s);
  if (!(t.startup_s > 0)) wrong(format("launch start-up = {:g} s is no time", t.startup_s), "give it 600 s");
  if (!(t.factor >= 1))
    wrong(format("factor = {:g}: a learned timeout would be shorter than what was seen", t.factor),
          "give it 2 or more; 5 is usual");
  if (t.warm_up_steps < 0) wrong(format("{} steps of warm-up", t.warm_up_steps), "give it 5");
  for (std::size_t i = 0; i < t.sections.size(); ++i) {
    const SectionTimeout& one = t.sections[i];
    must_not_be_negative(format("suspect of section {}", one.section), one.suspect_s);
    must_not_be_negative(format("act of section {}", one.section), one.act_s);
    if (one.suspect_s > 0 && one.act_s > 0 && one.suspect_s > one.act_s)
      wrong(format("section {}: act ({:g} s) is shorter than suspect ({:g} s)", one.section, one.act_s, one.suspect_s),
            "raise act, or lower suspect");
    for (std::size_t j = 0; j < i; ++j)
      if (t.sections[j].section == one.section)
        wrong(format("section {} has timeouts twice", one.section), "keep one of them");
  }
  return errors;
}

const char* to_string(HangLevel level) {
  return level == HangLevel::suspect ? "suspect" : "act";
}

StandstillLimits::StandstillLimits(HangTimeouts timeouts, LearnedTimes learned)
    : timeouts_(std::move(timeouts)), learned_(std::move(learned)) {}

void StandstillLimits::new_launch() {
  learned_.begin_launch();
  was_warm_ = false;
  steps_ = 0;
  step_times_s_.clear();
  next_step_time_ = 0;
}

void StandstillLimits::restarted() {
  was_warm_ |= warm();
  steps_ = 0;
}

void StandstillLimits::note_steps(std::int64_t steps) {
  steps_ = std::max(steps_, steps);
}

void StandstillLimits::note_step_time(double seconds) {
  if (!warm()) return;
  if (step_times_s_.size() < step_times_kept) step_times_s_.push_back(0);
  step_times_s_[next_step_time_++ % step_times_kept] = seconds;
}

double StandstillLimits::step_s() const {
  if (step_times_s_.empty()) return 0;
  std::vector<double> times = step_times_s_;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

double StandstillLimits::suspect_s() const {
  return timeouts_.suspect_s > 0 ? timeouts_.suspect_s : std::max(suspect_least_s, suspect_steps * step_s());
}

double StandstillLimits::shortest_s() const {
  double shortest = suspect_s();
  for (const SectionTimeout& own : timeouts_.sections)
    for (const double chosen : {own.suspect_s, own.act_s})
      if (chosen > 0) shortest = std::min(shortest, chosen);
  return shortest;
}

double StandstillLimits::seconds(HangLevel level, const std::string& section) const {
  const SectionTimeout* const own = timeouts_.of(section);
  if (own && own->unmonitored) return 0;
  const double chosen = !own ? 0 : level == HangLevel::suspect ? own->suspect_s : own->act_s;
  if (section == beat_start && longest_start_s_ > 0)
    return std::max(chosen, std::min(timeouts_.startup_s, std::max(start_least_s, start_factor * longest_start_s_)));
  const std::optional<double> longest = learned_.seconds(section);
  if (!warm() && !was_warm_) return std::max(chosen, timeouts_.startup_s);
  if (chosen > 0) return chosen;
  if (!longest) return std::max({timeouts_.startup_s, timeouts_.suspect_s, timeouts_.act_s});
  double suspect = std::max(suspect_s(), longer_than_ever * *longest);
  // A slow write is reported only, and no sooner than the floor.
  if (section == beat_checkpoint_write) suspect = std::max(suspect, timeouts_.floor_s);
  if (level == HangLevel::suspect) return suspect;
  const double learned = std::max(timeouts_.factor * *longest, timeouts_.floor_s);
  if (section == beat_checkpoint_write) return std::max({learned, timeouts_.act_s, timeouts_.startup_s, suspect});
  return std::max(timeouts_.act_s > 0 ? timeouts_.act_s : learned, suspect);
}

}  // namespace longhaul
