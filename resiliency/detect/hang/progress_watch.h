// Whether a run gets anywhere: launch after launch without a newer checkpoint, or steps that are done again and again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace longhaul {

struct ProgressOptions {
  int launches_max = 3;          // without progress; NVRx: --ft-max-no-progress-cycles
  std::int64_t least_steps = 1;  // that count as progress; NVRx: --ft-min-progress-iterations
  int roll_backs_max = 5;        // within a launch, without a step beyond the highest so far
};

class ProgressWatch {
 public:
  explicit ProgressWatch(const ProgressOptions& options = {}) : options_(options) {}
  // A launch has ended and the next one would go on from this step. The reason to stop, if there is one.
  std::optional<std::string> launch_ended(std::int64_t resume_step);
  // The step that ranks are at; call it as often as you like. The reason, once.
  std::optional<std::string> at_step(std::int64_t step);

 private:
  ProgressOptions options_;
  std::int64_t resume_step_ = 0;  // of the last launch that got anywhere
  int launches_ = 0;
  std::int64_t highest_ = -1, last_ = -1;
  int roll_backs_ = 0;
};

}  // namespace longhaul
