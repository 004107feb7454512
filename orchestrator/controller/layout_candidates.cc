#include "orchestrator/controller/layout_candidates.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "orchestrator/controller/layout_question.h"
#include "orchestrator/workflow/trial_stage.h"

namespace longhaul {
namespace {

constexpr int candidates_max = 24, searched = 400;

// The best of each way to cut model and batch first, then the best of the others: a trial of a layout that differs from
// another one in ZeRO or recomputation alone says little that the first has not said.
std::vector<RankedLayout> unlike_first(const std::vector<RankedLayout>& best) {
  using Cut = std::tuple<int, int, int, int, int, int>;
  std::set<Cut> seen;
  std::vector<RankedLayout> first, others;
  for (const RankedLayout& ranked : best) {
    const ParallelDims& d = ranked.layout.dims;
    const bool fresh = seen.emplace(d.tp, d.cp, d.pp, d.vp, d.ep, ranked.layout.micro_batch_size).second;
    (fresh ? first : others).push_back(ranked);
  }
  first.insert(first.end(), others.begin(), others.end());
  if (first.size() > candidates_max) first.resize(candidates_max);
  return first;
}

Result<PredictionBasis> read_basis(const std::string& constants_path, const std::string& measured_path) {
  PredictionBasis basis;
  LH_TRY(basis.constants, read_time_constants(constants_path));
  LH_TRY(basis.measured, read_measured_trainings(measured_path));
  return basis;
}

std::vector<int> whole_numbers(const std::vector<std::int64_t>& from) {
  return {from.begin(), from.end()};
}

// Which layout of the target's ranks is best, as far as the tune stage leaves it open.
Result<LayoutQuestion> tuning_question(const PredictionBasis& basis, const PlannedStage& tune,
                                       const PlannedStage& target, const SiteConfig& site) {
  const TuneSettings settings = tune_settings_of(tune);
  const int nodes = std::max(1, target.common.nodes), ranks = std::max(target.common.ranks, target.dims.world_size());
  PlannedStage stage = target;
  stage.dims = {}, stage.dims.dp_replicate = ranks;  // any layout of these ranks: the search says which
  LH_TRY(LayoutQuestion question, layout_question(stage, site, basis, (ranks + nodes - 1) / nodes, {}));
  SearchSpace& space = question.search.space;
  space.tp = whole_numbers(settings.tp), space.pp = whole_numbers(settings.pp), space.cp = whole_numbers(settings.cp);
  space.ep = whole_numbers(settings.ep), space.micro_batch_size = whole_numbers(settings.micro_batch_size);
  if (!question.on_gpus) space.offload = false;  // moments lie in the host's memory anyway
  return question;
}

Result<std::vector<Trial>> search_candidates(const PredictionBasis& basis, const PlannedStage& tune,
                                             const PlannedStage& target, const SiteConfig& site) {
  LH_TRY(LayoutQuestion question, tuning_question(basis, tune, target, site));
  question.search.best = searched;
  LH_TRY(const SearchOutcome found, search_layouts(question.search));
  std::vector<Trial> trials;
  for (const RankedLayout& ranked : unlike_first(found.best)) {
    Trial trial;
    trial.settings = written_layout(ranked.layout);
    trial.name = candidate_name(trial.settings);
    trial.predicted_seconds = ranked.seconds(), trial.predicted_sigma = ranked.time.sigma;
    trial.correction = ranked.time.correction;
    trial.like = likeness_of(question.search.task, ranked.layout);
    if (question.on_gpus) trial.predicted_bytes = static_cast<std::int64_t>(ranked.memory.total());
    trials.push_back(std::move(trial));
  }
  return trials;
}

// As the candidate would be trained: with its own ranks and nodes.
Result<LayoutForecast> candidate_forecast(const PredictionBasis& basis, const PlannedStage& target, const Trial& trial,
                                          const SiteConfig& site) {
  LH_TRY(const PlannedStage stage, stage_with(target, trial.settings));
  const int nodes = std::max(1, stage.common.nodes), ranks = stage.dims.world_size();
  LH_TRY(const LayoutQuestion question, layout_question(stage, site, basis, (ranks + nodes - 1) / nodes, {}));
  return forecast_layout(question.search, question.layout, trial.name);
}

Result<TuningForecast> forecast_candidates(const PredictionBasis& basis, const PlannedStage& tune,
                                           const PlannedStage& target, const std::vector<Trial>& candidates,
                                           const SiteConfig& site) {
  LH_TRY(LayoutQuestion question, tuning_question(basis, tune, target, site));
  TuningForecast forecast;
  forecast.device = question.device;
  if (question.search.memory_limit < 1e17) forecast.memory_limit = question.search.memory_limit;
  for (const Trial& trial : candidates)
    if (auto one = candidate_forecast(basis, target, trial, site); one.ok())
      forecast.candidates.push_back(std::move(one).value());
  if (!question.on_gpus) {  // the closed form of memory is that of GPUs; here the exact plan stands with the trials
    for (LayoutForecast& one : forecast.candidates) one.memory = 0;
    return forecast;
  }
  question.search.best = 1;
  if (const auto found = search_layouts(question.search); found.ok()) add_search(forecast, *found);
  return forecast;
}

}  // namespace

Value written_layout(const TrainingLayout& layout) {
  Value written = Value::make_table();
  Value parallel = changed_part(parallel_dims_fields().to_value(layout.dims), parallel_dims_fields().to_value({}));
  if (parallel.is_null()) parallel.set("dp_replicate", layout.dims.dp_replicate);
  written.set("parallel", std::move(parallel));
  written.set("micro_batch_size", layout.micro_batch_size);
  if (layout.dims.pp > 1) {
    Value& pipeline = written.set("pipeline", Value::make_table());
    pipeline.set("schedule", to_string(layout.schedule));
  }
  const Recompute& again = layout.recompute;
  if (again.any()) {
    Value& recompute = written.set("recompute", Value::make_table());
    Value& modules = recompute.set("modules", Value::make_array());
    for (const auto& [wanted, name] : {std::pair{again.norms, "norms"}, std::pair{again.attention, "attention"},
                                       std::pair{again.activation, "activation"},
                                       std::pair{again.feed_forward, "feed_forward"}, std::pair{again.block, "block"}})
      if (wanted) modules.push_back(name);
    if (again.layers > 0) recompute.set("layers", again.layers);
  }
  if (layout.offload_moments) written.set("optimizer", Value::make_table()).set("offload", "host");
  return written;
}

LayoutSearch layout_search_with(const std::string& constants_path, const std::string& measured_path) {
  return [constants_path, measured_path](const PlannedStage& tune, const PlannedStage& target,
                                         const SiteConfig& site) -> Result<std::vector<Trial>> {
    LH_TRY(const PredictionBasis basis, read_basis(constants_path, measured_path));
    return search_candidates(basis, tune, target, site);
  };
}

LayoutForecasts layout_forecasts_with(const std::string& constants_path, const std::string& measured_path) {
  return [constants_path, measured_path](const PlannedStage& tune, const PlannedStage& target,
                                         const std::vector<Trial>& candidates,
                                         const SiteConfig& site) -> Result<TuningForecast> {
    LH_TRY(const PredictionBasis basis, read_basis(constants_path, measured_path));
    return forecast_candidates(basis, tune, target, candidates, site);
  };
}

StepPrediction step_prediction_with(const std::string& constants_path) {
  return [constants_path](const RunPlan& plan, const PlannedStage& stage,
                          const SiteConfig& site) -> Result<MeasuredTraining> {
    LH_TRY(const PredictionBasis basis, read_basis(constants_path, ""));
    const int nodes = std::max(1, stage.common.nodes), ranks = stage.dims.world_size();
    LH_TRY(const LayoutQuestion question,
           layout_question(stage, site, basis, (ranks + nodes - 1) / nodes, origins_of(plan, stage)));
    LH_TRY(const StepTime time, step_time(question.search.task, question.layout, question.search.place));
    MeasuredTraining one;
    one.name = layout_text(question.layout), one.device = question.device;
    one.like = likeness_of(question.search.task, question.layout), one.predicted = time.seconds();
    return one;
  };
}

}  // namespace longhaul
