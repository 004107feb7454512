// How long is too long, and whether all timeouts of a run fit each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "resiliency/detect/hang/learned_times.h"

namespace longhaul {

struct SectionTimeout {
  std::string section;
  double suspect_s = 0;      // 0: as the rules say
  double act_s = 0;          // 0: as the rules say
  bool unmonitored = false;  // a rank may stay as long as it likes
};

// In seconds, of standing still: neither step, section, epoch nor a counter of collectives changes.
struct HangTimeouts {
  double suspect_s = 0;    // name the culprit, write stacks; 0: 2.5 step times or 1.5 s, whichever is longer
  double act_s = 0;        // end the launch; 0: learned, factor times the longest stay in that section
  double startup_s = 600;  // until the first steps are done, and in a section that nobody has timed
  int warm_up_steps = 5;   // the first steps of a launch: compilation, first touch, caches; nothing is learned of them
  double factor = 5;       // NVRx: --ft-safety-factor
  // No learned timeout is shorter. 45 s survive a fabric that is silent for the 30 s of a re-sweep of its subnet
  // manager; lower it where the fabric has none.
  double floor_s = 45;
  std::vector<SectionTimeout> sections;

  const SectionTimeout* of(const std::string& section) const;  // null: nothing special
};

// Negative values, a factor below 1, a section named twice.
std::vector<Error> judge_timeouts(const HangTimeouts& timeouts);

enum class HangLevel { suspect, act };
const char* to_string(HangLevel level);

// How long a rank may stand still in a section: as the timeouts say, or as this and earlier launches have shown.
class StandstillLimits {
 public:
  explicit StandstillLimits(HangTimeouts timeouts, LearnedTimes learned = {});

  void new_launch();
  void restarted();                     // the same processes go on from an earlier state, as warm as they were
  void note_steps(std::int64_t steps);  // so many have been done since the launch, or since it was restarted
  void note_step_time(double seconds);  // of one step; counts once the launch is warm
  void note_stay(const std::string& section, double seconds) { learned_.note(section, seconds); }
  // All ranks of a launch were past the section `start` after so long: a later launch of the job that takes ten times
  // as long, and five minutes at least, does not come to it any more (an MPI whose first messages were lost waits for
  // good).
  void note_start(double seconds) { longest_start_s_ = std::max(longest_start_s_, seconds); }

  bool warm() const { return steps_ >= timeouts_.warm_up_steps; }
  double step_s() const;      // the median of the last ones of this launch; 0 before it is warm
  double suspect_s() const;   // before a rank is suspected, where its section says nothing else
  double shortest_s() const;  // nobody who has stood still for less is of interest
  double startup_s() const { return timeouts_.startup_s; }
  double act_floor_s() const { return timeouts_.act_s > 0 ? timeouts_.act_s : timeouts_.floor_s; }
  double seconds(HangLevel level, const std::string& section) const;  // 0: unmonitored
  const LearnedTimes& learned() const { return learned_; }

 private:
  HangTimeouts timeouts_;
  LearnedTimes learned_;
  std::int64_t steps_ = 0;
  bool was_warm_ = false;             // before it was restarted
  double longest_start_s_ = 0;        // of the launches of this lead; 0: none has started
  std::vector<double> step_times_s_;  // a ring of the last ones
  std::size_t next_step_time_ = 0;
};

}  // namespace longhaul
