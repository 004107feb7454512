// Room autotune/trials
// Trials: short trainings that are measured because prediction alone is not enough.
// trial.h and trial_runner.h are the interface; confirmation.h decides from the results which layout is fastest.
// layout_artifact.h is the layout.toml that a `tune` stage publishes.
// It does not know how a trial becomes a job: orchestrator/trials implements the interface.
//
// A trial: one short training whose step time, losses or memory somebody wants to know. What asks for trials (the
// choice of a layout, the search of hyperparameters) decides by their results; what runs them is behind TrialRunner.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autotune/time/forecast_source.h"
#include "autotune/time/measured_correction.h"
#include "base/value/value.h"

namespace longhaul {

struct Trial {
  std::string name;  // unique among the trials of one question; letters, digits and ".,=_+-": it names a folder
  // What of the stage's table differs, as a user would write it there: parallel = { ... }, micro_batch_size, optimizer
  // = { lr = ... }, ...
  Value settings;
  std::int64_t steps = 0;                             // that it may have trained altogether
  double predicted_seconds = 0;                       // of a step; 0: nobody has predicted it
  double predicted_sigma = 0;                         // relative standard error of that
  std::optional<ForecastSource> predicted_from = {};  // what that is made from; nullopt: nobody has said
  double correction = 1;                              // that the prediction has by what was measured before (StepTime)
  Likeness like;                     // to which other trials its prediction errs alike; of no kind: nobody knows
  std::int64_t predicted_bytes = 0;  // of the rank that holds most; 0: nobody has predicted it
};

enum class TrialOutcome {
  waiting,        // not begun, or its job has not started
  running,        // it has results already, perhaps
  measured,       // ended well
  out_of_memory,  // the machine's, a cgroup's, or the program's own check before it began
  hang,           // ranks stood still
  crash,          // its program ended by itself
  refused,        // never submitted, or not accepted: what it asks for cannot be
  stopped,        // ended early because somebody asked, or out of time; its results count as far as they go
  lost,           // a host, the scheduler, the network: says nothing about it
};
const char* to_string(TrialOutcome outcome);
bool is_over(TrialOutcome outcome);

struct TrialResult {
  std::string name;
  TrialOutcome outcome = TrialOutcome::waiting;
  bool begun = true;                                    // false: no job of it was ever submitted
  std::string what;                                     // of a fault: its text
  std::vector<double> step_seconds;                     // of each step that was measured after the warm-up, in order
  std::vector<std::pair<std::int64_t, double>> losses;  // by step
  std::int64_t peak_bytes = 0;                          // held by the rank that held most; 0: not known
  std::int64_t steps_done = 0;
  int nodes = 1;
  double node_seconds = 0;  // of its jobs, from start to end
};

}  // namespace longhaul
