// Room resiliency/simulate
// `longhaul simulate`: many simulated trainings with faults, by the policies of the real program.
// scenario.h is the input; trial.h one simulated training; study.h many of them with confidence bounds.
// It knows no detector: how long detection takes is a number of the scenario.
//
// Many trials of a scenario: means with confidence bounds, what dearer or cheaper recoveries, other intervals and more
// spares would change, and whether published figures come out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "resiliency/simulate/scenario.h"
#include "resiliency/simulate/trial.h"

namespace longhaul {

struct Estimate {
  double mean = 0;
  double half_width = 0;     // of the 95 % confidence interval of the mean (Student's t)
  double low = 0, high = 0;  // 5 % and 95 % of the trials
};
Estimate estimate_of(std::vector<double> values);

// Quantile 0.975 of Student's t with so many degrees of freedom, within 0.2 % from 2 on (Cornish-Fisher expansion,
// Abramowitz and Stegun 26.7.5, four terms).
double student_t_975(int degrees);

struct Variant {
  double value = 0;     // factor, or hosts
  Estimate effective;   // 0 to 1
  Estimate difference;  // to the scenario as it stands, trial by trial
};

struct ExpectationResult {
  SimExpectation expected;
  Estimate simulated;  // percent
  bool met = false;
};

struct Study {
  std::string name, description;
  std::vector<std::string> sources, assumed;
  std::map<std::string, std::string> measured;
  std::uint64_t seed = 0;
  int trials = 0;
  int hosts = 0;
  double length_s = 0, mtbf_s = 0;                   // configured
  double daly_interval_s = 0, young_interval_s = 0;  // of the most frequent saves, by the true rate and stall
  Estimate interval_s, effective, faults, standstills, lost_steps, hosts_left, operators;
  std::array<Estimate, time_classes> shares;
  std::array<double, restart_tiers> tiers{};  // decisions a trial, mean
  std::vector<Variant> costs, intervals, spares;
  std::vector<ExpectationResult> expectations;
  std::vector<TrialPoint> days;  // of the first trial
  bool met() const;              // every expectation
};

// `trials` and `seed` replace the scenario's where they are >= 0. `threads` <= 0: all cores; the result is the same.
Study run_study(const Scenario& scenario, int trials, std::int64_t seed, int threads);

}  // namespace longhaul
