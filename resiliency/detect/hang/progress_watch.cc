#include "resiliency/detect/hang/progress_watch.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {

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
