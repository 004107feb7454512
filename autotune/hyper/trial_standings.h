// A search as people look at it: one line for each trial, the best first.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "autotune/hyper/halving.h"

namespace longhaul::hyper {

struct TrialStanding {
  std::string name;
  Value settings;
  int rung = 0;            // of its newest result
  std::int64_t steps = 0;  // that it has trained when it has come to the end of that rung, in its own steps
  RungEnd end = RungEnd::running;
  double metric = 0;  // of `done`
  bool whole = false;
  std::string verdict;  // "won", "4.2 % behind the best", "not among the best of rung 0", "diverged: ..."
  bool operator==(const TrialStanding&) const = default;
};

// `reasons`: by the names of trials that did not come to an end, what is known of it. `finished`: Decision::finished.
// Trials without a result are left out.
std::vector<TrialStanding> trial_standings(const Halving& search, const std::vector<Trial>& history,
                                           const std::map<std::string, std::string>& reasons, bool finished);

// "optimizer.lr = 0.0025, optimizer.warmup_steps = 20"; numbers to four digits.
std::string configuration_text(const Value& configuration);

}  // namespace longhaul::hyper
