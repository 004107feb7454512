#include "resiliency/detect/hang/progress_watch.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {

std::optional<std::string> ProgressWatch::launch_ended(std::int64_t resume_step) {
  highest_ = last_ = -1;
  roll_backs_ = 0;
  if (resume_step >= resume_step_ + options_.least_steps) {
    resume_step_ = resume_step;
    launches_ = 0;
    return std::nullopt;
  }
  if (++launches_ < options_.launches_max) return std::nullopt;
  return format("{} launches in a row got no further than step {}", launches_, resume_step_);
}

std::optional<std::string> ProgressWatch::at_step(std::int64_t step) {
  if (step > highest_) roll_backs_ = 0;
  if (step < last_ && ++roll_backs_ == options_.roll_backs_max) {
    last_ = step;
    return format("rolled back {} times without getting beyond step {}", roll_backs_, highest_);
  }
  highest_ = std::max(highest_, step);
  last_ = step;
  return std::nullopt;
}

}  // namespace longhaul
