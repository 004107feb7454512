#include "worker/lead/monitor/interval_watch.h"

#include <algorithm>

#include "contracts/events/fault_event.h"
#include "contracts/events/roll_back_event.h"
#include "resiliency/taxonomy/restart_tier.h"

namespace longhaul {
namespace {

constexpr std::int64_t steps_to_time = 5;

IntervalSettings settings_for(int nodes) {
  IntervalSettings settings;
  settings.mtbf_prior_s = failure_prior_s(nodes);
  return settings;
}

}  // namespace

IntervalWatch::IntervalWatch(int nodes, bool saves_by_itself)
    : chooser_(settings_for(nodes)), saves_by_itself_(saves_by_itself) {}

std::optional<std::int64_t> IntervalWatch::look(std::int64_t now_ms, std::int64_t step,
                                                const std::vector<Event>& news) {
  double stalled_s = 0;
  bool undisturbed = true;
  for (const Event& event : news) {
    if (event.kind == "checkpoint") {
      const double stall_s = event.fields.get_number("stall_s");
      chooser_.saved(stall_s, event.fields.get_number("write_s"));
      stalled_s += stall_s;
      measured_ = true;
    } else if (event.kind == fault_event_kind) {
      // Against a step whose update is left out no checkpoint helps; a roll-back loses what was done since the last.
      const bool left_out = event.fields.get_string("tier") == to_string(RestartTier::skip);
      if (left_out && !is_roll_back(event.fields)) continue;
      chooser_.failed();
      undisturbed = false;
    } else if (event.kind == "launched" || event.kind == recovered_event_kind) {
      undisturbed = false;
    }
  }
  if (looked_ms_) {
    const double seconds = static_cast<double>(now_ms - *looked_ms_) * 1e-3;
    const std::int64_t steps = undisturbed && step_ >= 0 ? std::max<std::int64_t>(0, step - step_) : 0;
    chooser_.ran(seconds, steps, std::max(0.0, seconds - stalled_s));
    timed_steps_ += steps;
    measured_ = measured_ || (!saves_by_itself_ && timed_steps_ >= steps_to_time);
  }
  looked_ms_ = now_ms, step_ = step;
  if (!measured_ || chooser_.steps() == ordered_) return std::nullopt;
  ordered_ = chooser_.steps();
  return ordered_;
}

}  // namespace longhaul
