// Constants of the time model fitted to published runs without those of one source. A source is who published: one
// paper, one documentation of one project with all its releases. Runs of one source share hardware, software and
// habits, so that leaving out rows alone would flatter the model.
#pragma once

#include <string>
#include <vector>

#include "autotune/calibrate/constant_fit.h"
#include "published_runs.h"

namespace longhaul::bench {

// The source that a row of throughput.csv belongs to: "Megatron-Bridge" for all its releases, "SC21" for both tables
// of Narayanan et al. 2021. A text that no rule knows is a source of its own.
std::string source_of(const std::string& text);

struct FitRuns {
  std::vector<PublishedRun> dense, experts, one_node;
};
// throughput.csv, and of vtrain_single_node.csv the models of the fit half (split_by_model).
Result<FitRuns> read_fit_runs(const std::string& data_folder);
FitRuns without_source(const FitRuns& runs, const std::string& source);

// Runs of experts count a fifth: the same model on the same GPUs ran twice as fast with the software of a year later.
// The many runs of one small machine count together as much as all dense ones. `runs` outlives what is returned.
std::vector<TimedRun> timed_runs(const FitRuns& runs);

// Fits every constant that has a start and a spread. With nothing left to fit to, the table stays as believed before.
Result<FitReport> fit_published(ConstantTable& table, const FitRuns& runs, int iterations);

}  // namespace longhaul::bench
