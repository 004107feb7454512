// Saves of one kind in a simulated training: when they are due, and which is whole.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "resiliency/checkpoint_interval.h"
#include "resiliency/simulate/scenario.h"

namespace longhaul {

class SaveClock {
 public:
  SaveClock(const SimSaves& saves, double mtbf_prior_s, double step_s, double fixed_interval_s)
      : saves_(saves), chooser_(settings_of(saves, mtbf_prior_s, step_s)) {
    if (fixed_interval_s > 0)
      fixed_steps_ = std::max<std::int64_t>(1, std::llround(fixed_interval_s / step_s));
    else if (saves.every_steps > 0)
      fixed_steps_ = saves.every_steps;
  }

  bool enabled() const { return saves_.enabled; }
  double stall_s() const { return saves_.stall.value; }
  double write_s() const { return saves_.write.value; }
  std::int64_t every_steps() const { return fixed_steps_ > 0 ? fixed_steps_ : chooser_.steps(); }
  std::int64_t due_step() const {
    return enabled() ? newest_ + every_steps() : std::numeric_limits<std::int64_t>::max();
  }
  double whole_at_s() const { return whole_at_s_; }
  // What is being written then takes so much longer.
  void stood_still(double from_s, double seconds) {
    if (whole_at_s_ > from_s) whole_at_s_ += seconds;
  }
  // The newest that is whole at `now_s`.
  std::int64_t whole(double now_s) const { return now_s >= whole_at_s_ ? newest_ : older_; }

  void saved(std::int64_t step, double begun_s) {
    older_ = whole(begun_s);
    newest_ = step;
    whole_at_s_ = begun_s + write_s();
    chooser_.saved(stall_s(), write_s());
  }
  // A fault: what was being written is gone, and the training goes on from `step`.
  void back_to(std::int64_t step) { newest_ = older_ = step, whole_at_s_ = -std::numeric_limits<double>::infinity(); }
  void lose_unfinished(double now_s) { back_to(whole(now_s)); }
  void failed() { chooser_.failed(); }
  void ran(double seconds, std::int64_t steps, double steps_s) { chooser_.ran(seconds, steps, steps_s); }

 private:
  static IntervalSettings settings_of(const SimSaves& saves, double mtbf_prior_s, double step_s) {
    IntervalSettings settings;
    settings.mtbf_prior_s = mtbf_prior_s;
    settings.stall_prior_s = saves.stall.value;
    settings.step_prior_s = step_s;
    return settings;
  }

  SimSaves saves_;
  IntervalChooser chooser_;
  std::int64_t fixed_steps_ = 0, newest_ = 0, older_ = 0;
  double whole_at_s_ = -std::numeric_limits<double>::infinity();
};

}  // namespace longhaul
