// Which short runs determine a site's constants: small models that spend their steps differently (products, attention,
// output and loss), each laid out in ways that differ in one respect (ranks that share matrices, layers, batches or
// optimizer; larger micro-batches; recomputation; precision), and benchmarks of the parts. Pure; the same site gives
// the same runs, so an interrupted calibration goes on with those that are missing.
#pragma once

#include <string>
#include <vector>

#include "autotune/time/training_case.h"

namespace longhaul {

struct CalibrationSite {
  int ranks = 2;    // most of a run; 1: nothing is learnt of messages
  int threads = 1;  // of a rank
  int nodes = 1;    // 2 and more: messages between nodes as well
};

struct CalibrationLayout {
  TrainingLayout layout;
  int nodes = 1;
};

struct CalibrationModel {
  std::string name;
  TrainingTask task;
  std::vector<CalibrationLayout> layouts;
};

struct CalibrationBenchmark {
  std::string name;
  int ranks = 1, nodes = 1;
  std::vector<std::string> products;   // "MxNxK"
  std::vector<std::int64_t> messages;  // bytes
};

struct CalibrationPlan {
  std::int64_t steps = 11, warmup_steps = 2;  // of each training
  std::vector<CalibrationModel> models;
  std::vector<CalibrationBenchmark> benchmarks;
};

// invalid_input: ranks other than 1, 2 and 4 (the models' heads have to divide), or nodes that do not divide
// them.
Result<CalibrationPlan> plan_calibration(const CalibrationSite& site);

}  // namespace longhaul
