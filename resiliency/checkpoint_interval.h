// How often to save: as often as the cost of a save and the failures seen so far say, chosen again while a training
// runs.
//
// A training of interval tau stands still for w at every save, and loses tau/2 on average at every failure, of which
// there is one per M seconds. The first costs w/tau of the time and the second tau/(2M); their sum is least where they
// are equal.
#pragma once

#include <cstdint>
#include <deque>

namespace longhaul {

// Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974: sqrt(2 w M).
// Seconds of training between two saves; `stall_s` > 0, `mtbf_s` > 0.
double young_interval_s(double stall_s, double mtbf_s);

// Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 22, 2006, eq. 37:
// sqrt(2wM) [1 + (1/3) sqrt(w/2M) + (1/9) w/2M] - w  for w < 2M, else M.
double daly_interval_s(double stall_s, double mtbf_s);

struct IntervalSettings {
  double mtbf_prior_s = 24 * 3600;  // expected between two failures before any is seen (failure_prior_s)
  double prior_failures = 3;        // what the prior weighs: so many failures seen at that rate
  double stall_prior_s = 10;        // of a save, before any is measured
  double step_prior_s = 1;          // of a step, before any is measured
  std::int64_t steps_min = 1;
  std::int64_t steps_max = 1'000'000;
  // The answer changes when the optimum is off by more than this share. The sum above is flat there: 20 % beside the
  // optimum costs (1.2 + 1/1.2)/2 - 1 = 1.7 % of the overhead, not of the time.
  double change_min = 0.2;
  double memory_s = 14 * 24 * 3600;  // failures and time are forgotten with this time constant
};

// Between two failures of a job of so many nodes, by a rate per 1,000 node-days; 6.5 are reported for jobs on RSC-1
// (Kokolis et al., "Revisiting reliability in large-scale machine learning research clusters", 2024).
double failure_prior_s(int nodes, double failures_per_1000_node_days = 6.5);

// Is given what happens, answers in steps. Not thread-safe; no clock of its own.
class IntervalChooser {
 public:
  explicit IntervalChooser(const IntervalSettings& settings);

  // `seconds` of wall time went by, of which `steps` steps took `steps_s`.
  void ran(double seconds, std::int64_t steps, double steps_s);
  // A save held the training up for `stall_s` and was whole `write_s` after it began: no interval is shorter than that,
  // or saves would wait for each other.
  void saved(double stall_s, double write_s);
  void failed();

  std::int64_t steps() const { return steps_; }
  double interval_s() const { return static_cast<double>(steps_) * step_s_; }
  double mtbf_s() const;
  double stall_s() const;  // median of the last nine
  double step_s() const { return step_s_; }

 private:
  void choose();

  IntervalSettings settings_;
  double failures_ = 0, watched_s_ = 0;  // as far as they are not forgotten
  double step_s_;
  double write_s_ = 0;  // of the newest save
  std::deque<double> stalls_;
  std::int64_t steps_ = 0;
};

}  // namespace longhaul
