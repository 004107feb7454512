// What a training will take: time, tokens, memory, money. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autotune/search/replan.h"
#include "autotune/search/tuning_forecast.h"
#include "autotune/time/forecast_source.h"

namespace longhaul {

// Of a training that learns from its own answers: what a step has beside its training. Each part is of the rank that
// takes longest, a rollout's shared out over the steps that learn from it. Where parts go on beside each other they
// slow each other down for as long as both do, and their times are those in the step.
struct RolloutForecast {
  std::string how;  // who draws: "in turn" with the steps, "ahead" by a thread beside them, "ranks" of their own
  double weights = 0, generate = 0, reference = 0;  // seconds: to hand the weights over, to draw, to compare
  double reward = 0;                                // of a reward model, to judge; 0: there is none
  double value = 0, critic = 0;                     // of a critic: to expect what answers are worth, and its own step
  double train = 0;                                 // of the training
  double alone = 0;                                 // of the training, if nothing went on beside it
  double seconds = 0;                               // of a step with all of it, as far as it lies beside each other
  double memory = 0;  // bytes: of one that only draws all that it holds, of others what they hold beside the training
  int drawing_ranks = 0;
};

struct TrainingForecast {
  std::string stage, device;
  bool on_gpus = false;
  ForecastSource source = ForecastSource::arithmetic;
  TrainingLayout layout;
  StepTime time;
  double low = 0, high = 0;  // seconds of a step, 95 % of cases
  double tokens_per_second = 0;
  double utilisation = 0;                // model FLOPs over the peak in the layout's precision
  double memory = 0, memory_limit = 0;   // bytes of the rank that holds most (0: not known); no limit known: 1e18
  std::int64_t steps = 0;                // 0: not known before the data is
  double all_seconds = 0;                // of all steps, where they are not alike; else 0
  double gpu_hours = 0, energy_kwh = 0;  // 0 without steps; energy: ranks at the power that they may take
  std::string energy_from;               // that power and whose it is; empty: nobody says one, and no energy
  double checkpoint_bytes = 0, checkpoint_seconds = 0;  // of one, until it is durable; 0 seconds: not known
  std::optional<RankedLayout> better;         // what the search finds: faster by a twentieth at least, or it fits
  int nodes = 1;                              // of its job
  std::optional<ReplannedLayout> after_loss;  // of one node, where there are several
  TuningForecast tuning;                      // these layouts with their parts, and what the search saw; for pictures
  std::optional<RolloutForecast> rollout;
  std::vector<std::string> notes;
  std::string problem;  // not empty: there is no forecast, and why

  double seconds() const { return rollout ? rollout->seconds : time.seconds(); }
  double duration() const { return all_seconds > 0 ? all_seconds : seconds() * static_cast<double>(steps); }
};

// Of the layout as it is; with `search` also of the best one there is. invalid_input: a schedule that does not go.
Result<TrainingForecast> forecast_training(const SearchRequest& question, const TrainingLayout& layout,
                                           std::int64_t steps, bool search);

// What of the forecast depends on how long a step takes and on how many ranks there are, with the rollout. `low` stays
// that of the step alone: nobody knows how short answers will be.
void add_rollout(TrainingForecast& forecast, const RolloutForecast& rollout);

}  // namespace longhaul
