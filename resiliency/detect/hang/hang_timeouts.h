// How long is too long, and whether all timeouts of a run fit each other.
#pragma once

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

}  // namespace longhaul
