// Ranks that beat and get nowhere: sections change, collectives complete, and no step is ever done (a loader that tries
// the same file again and again, a loop that does not converge). HangDetector sees life, so this one looks at steps
// alone.
//
// Rule: the time since the newest step is compared with the longest that one took in this launch (saves and held-out
// loss included, the first `warm_up_steps` not). A rank in a section whose length nobody knows, or that
// waits for a write, stops the clock: an export takes as long as it takes. Suspect is `factor` times the longest, at
// least `floor_s`; act also waits for `startup_s`, since what happens once an hour is not in the longest step of the
// first minutes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "resiliency/detect/hang/hang_detector.h"
#include "resiliency/detect/hang/learned_times.h"

namespace longhaul {

struct StepStallOptions {
  double suspect_s = 0;  // 0: learned
  double act_s = 0;      // 0: learned
  double factor = 5;
  double floor_s = 45;
  double startup_s = 1800;
  int warm_up_steps = 5;
};
struct StepStallFinding {
  HangLevel level = HangLevel::suspect;
  std::int64_t step = -1;  // the newest
  int rank = -1;           // one of those that are farthest behind, of those that do steps
  std::string host, section;
  double stalled_s = 0, timeout_s = 0;
  std::string text() const;
};

class StepStall {
 public:
  explicit StepStall(const StepStallOptions& options = {}) : options_(options) {}
  void new_launch(std::int64_t now_ms);
  // Each level once, until a step is done. `learned`: the sections whose length is known.
  std::optional<StepStallFinding> observe(std::int64_t now_ms, const std::vector<RankObservation>& ranks,
                                          const LearnedTimes& learned);
  double timeout_s(HangLevel level) const;  // 0: nothing is known yet

 private:
  void note_step(std::int64_t now_ms, std::int64_t step);
  StepStallOptions options_;
  std::int64_t step_ = -1, step_ms_ = 0, counted_ms_ = 0, looked_ms_ = 0;
  int steps_ = 0;
  double longest_s_ = 0;
  std::optional<HangLevel> reported_;
};

}  // namespace longhaul
