// Training runs that others measured and published, as cases of the time model. The data is not part of the project
// (docs/testing.md, label data); what its columns leave open is decided here, by rule and never by row:
//   - without a step time, tokens/s; without those TFLOP/s by the convention of the source: Narayanan et al. 2021 count
//     what is recomputed, Megatron-LM's later tables the full square of attention;
//   - a micro-batch that nobody states is the one of 1, 2, 4, 8 that the model finds fastest;
//   - so are virtual stages that nobody states, where the program would use them without being asked (since 2024);
//   - fine-tuning is left out (packed sequences), and so are rows without a layout or a shape that this project has.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autotune/time/step_time.h"

namespace longhaul::bench {

struct PublishedRun {
  std::string source, cluster;   // cluster: the GPU as the row calls it
  std::string model, precision;  // as the row writes them: there are several recipes of eight bits
  std::string framework;
  TrainingTask task;
  std::vector<TrainingLayout> layouts;  // more than one where the micro-batch is not stated
  double seconds = 0;                   // of a step
  bool moe = false;
  int line = 0;  // in the file
  std::string to_string() const;
};

// throughput.csv. Rows of vTrain are left out: their file has all of them.
Result<std::vector<PublishedRun>> read_throughput(const std::string& path);
// vtrain_single_node.csv, and vTrain's table of runs over many nodes (its first column is the model's size).
Result<std::vector<PublishedRun>> read_vtrain(const std::string& path, bool many_nodes);

// Fit and test half of vTrain: the models (hidden size, layers), in ascending order, go to fit and test in turn, the
// second hidden size beginning with test. Published runs are divided by source (published_fit.h).
struct Split {
  std::vector<PublishedRun> fit, test;
};
Split split_by_model(const std::vector<PublishedRun>& runs);

// Seconds of a step. `simulated`: with the schedule's own operations, otherwise by the bound in closed form.
double predict(const PublishedRun& run, const TimeConstants& constants, bool simulated);

}  // namespace longhaul::bench
