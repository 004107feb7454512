// Room orchestrator/forecast
// From a planned stage and a site to what the tuner is asked, for training, serving and sizing.
// layout_request.h is for training; serving_request.h, size_request.h, checkpoint_forecast.h for the rest.
// machine_speed.h and measured_trainings.h keep what was measured, so that later forecasts start from it.
// It does not know runs or jobs: it is asked before there is one.
//
// From a planned training stage and a site to what the time model and the search are asked: the model's shape, the
// cluster, the memory of a GPU. Pure, but for config.json of a model that stands ready as a folder.
#pragma once

#include <optional>
#include <string>

#include "autotune/search/layout_search.h"
#include "autotune/time/forecast_source.h"
#include "contracts/plan/processor_speed.h"
#include "orchestrator/forecast/measured_trainings.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// What a site's trainings are predicted by.
struct PredictionBasis {
  TimeConstants constants;
  MeasuredTrainings measured = {};  // there; empty: nothing corrects the constants
  bool calibrated = false;          // the constants are the site's own
};

struct LayoutRequest {
  SearchRequest search;
  TrainingLayout layout;  // of the stage as it is planned
  std::string device;     // "NVIDIA H100 64 GB (custom) as h100-64", "2 cores"
  bool on_gpus = false;
  ForecastSource source = ForecastSource::arithmetic;
  std::vector<std::string> notes;  // what was assumed
};

// What a stage has from those before it, as far as the plan knows.
struct StageOrigins {
  std::int64_t vocabulary = 0;      // of its tokens, for a model that does not say its own; 0: not known
  std::optional<ModelShape> model;  // that it begins with: a stage makes it, or it stands ready as a folder
  std::string problem = {};         // why such a folder cannot be read
};
StageOrigins origins_of(const RunPlan& plan, const PlannedStage& stage);
std::int64_t vocabulary_behind(const RunPlan& plan, const PlannedStage& stage);

// The stage with that vocabulary written into its model, where it has none: products and memory depend on it.
PlannedStage with_vocabulary(PlannedStage stage, const RunPlan& plan);

// Of a stage whose device is not decided: where its job may have some.
bool may_use_gpus(const PlannedStage& stage);

// unsupported: a stage that is neither pretrain, sft nor align, or whose model nobody knows yet. not_found: a GPU that
// the constants do not know, and the four keys of the site file that would say enough. `ranks_per_node`: of the stage's
// job; 0: all on one node.
Result<LayoutRequest> layout_request(const PlannedStage& stage, const SiteConfig& site, const PredictionBasis& basis,
                                     int ranks_per_node, const StageOrigins& origins);

// The same of a stage that learns from its own answers, which layout_request() refuses: of its steps alone
// (rollout_request.h has the rest).
Result<LayoutRequest> layout_request_of_rollouts(const PlannedStage& stage, const SiteConfig& site,
                                                 const PredictionBasis& basis, int ranks_per_node,
                                                 const StageOrigins& origins);
// Does it?
bool generates_its_rows(const PlannedStage& stage);

// One rank and its neighbours as the time model sees them, GPU or cores.
struct RankPlace {
  TrainingPlace place;
  bool on_gpus = false;
  std::string device;                                  // as LayoutRequest has it
  double memory_limit = 0;                             // bytes that it may take; 0: not known
  ForecastSource source = ForecastSource::arithmetic;  // of the constants alone
};
// `use`: on cores, as rank_use_of() has it. Errors as layout_request has them.
Result<RankPlace> rank_place(const SiteConfig& site, const TimeConstants& constants, bool may_use_gpus,
                             const RankUse& use, std::vector<std::string>& notes);
// Those that a rank on cores has: `asked`, or where it is 0 what the ranks of a node leave it.
int rank_threads(const SiteConfig& site, int asked, int ranks_on_node);
// What is measured of a stage whose node has so many of its ranks. Ranks that only draw answers are `beside`, where all
// of them are on one node, and so are the threads that draw them ahead, where cores are left for these, or nobody knows
// how many there are; else those that train also draw.
RankUse rank_use_of(const PlannedStage& stage, const SiteConfig& site, int ranks_on_node);
// And what of how it draws: the same, but where ranks that train draw with other threads.
RankUse drawing_use_of(const PlannedStage& stage, const SiteConfig& site, int ranks_on_node);
// Of a use with ranks beside it: those that train, and those that draw, while the others do nothing. A training and the
// answers that are drawn beside it seldom end together.
struct UsesAlone {
  RankUse trains, draws;
};
UsesAlone uses_alone(const RankUse& use);

// The cluster that a site's GPUs are. not_found as above.
Result<Cluster> cluster_of(const SiteConfig& site, const TimeConstants& constants, std::vector<std::string>& notes);

}  // namespace longhaul
