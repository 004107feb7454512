#include "orchestrator/forecast/layout_candidates.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/text/text.h"
#include "orchestrator/forecast/layout_request.h"
#include "orchestrator/forecast/processor_memory.h"
#include "orchestrator/forecast/written_layout.h"
#include "orchestrator/workflow/trials/trial_stage.h"

namespace longhaul {
namespace {

constexpr int candidates_max = 24, searched = 400;
constexpr int searched_on_processors = 4000;  // what fits is asked afterwards

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
  return first;
}

// The engine's plan of a large layout takes tens of milliseconds, so not every one is asked for it: the first ones, and
// of the others those that the closed form holds for leanest.
std::vector<RankedLayout> worth_planning(std::vector<RankedLayout> found) {
  constexpr std::size_t first = 80, leanest = 40;
  if (found.size() <= first + leanest) return found;
  std::ranges::stable_sort(found.begin() + first, found.end(), {},
                           [](const RankedLayout& ranked) { return ranked.memory.total(); });
  found.resize(first + leanest);
  return found;
}

// Of ranks on processors.
Result<std::vector<RankedLayout>> those_that_fit(const std::vector<RankedLayout>& found, const ProcessorMemory& place) {
  std::vector<RankedLayout> fitting;
  double least = any_memory;
  for (const RankedLayout& ranked : found) {
    const auto node = place.of(ranked.layout);
    if (!node.ok() && node.error().code == ErrorCode::unsupported) return found;  // nobody knows before it runs
    if (!node.ok()) continue;
    least = std::min(least, static_cast<double>(node->bytes));
    if (place.fits(*node)) fitting.push_back(ranked);
    if (fitting.size() == candidates_max) break;
  }
  if (fitting.empty() && least < any_memory)
    return make_error(
        ErrorCode::unavailable,
        format("none of {} layouts fits, the fastest and the leanest: the smallest needs {} on a node and there are {}",
               found.size(), human_bytes(least), human_bytes(place.there_is())),
        "more nodes, a smaller micro_batch_size, or nodes with more memory (node.memory of the site)");
  return fitting;
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

int ranks_of(const PlannedStage& target) {
  return std::max(target.common.ranks, target.dims.world_size());
}

int ranks_of_a_node(const PlannedStage& target) {
  const int nodes = std::max(1, target.common.nodes);
  return (ranks_of(target) + nodes - 1) / nodes;
}

// Which layout of the target's ranks is best, as far as the tune stage leaves it open.
Result<LayoutRequest> tuning_question(const PredictionBasis& basis, const StageOrigins& origins,
                                      const PlannedStage& tune, const PlannedStage& target, const SiteConfig& site) {
  if (target.kind == "align" || target.kind == "reward")
    return make_error(
        ErrorCode::unsupported,
        format("layouts of stage {} are not searched: it is a stage of the kind {}", target.id(), target.kind),
        "write candidates = [{ parallel = { ... } }, ...] in the tune stage");
  const TuneSettings settings = tune_settings_of(tune);
  const int ranks = ranks_of(target);
  PlannedStage stage = target;
  stage.dims = {}, stage.dims.dp_replicate = ranks;  // any layout of these ranks: the search says which
  if (Value* pipeline = stage.settings.find("pipeline")) *pipeline = pipeline_fields().to_value({});
  LH_TRY(LayoutRequest question, layout_request(stage, site, basis, ranks_of_a_node(target), origins));
  SearchSpace& space = question.search.space;
  space.tp = whole_numbers(settings.tp), space.pp = whole_numbers(settings.pp), space.cp = whole_numbers(settings.cp);
  space.ep = whole_numbers(settings.ep), space.micro_batch_size = whole_numbers(settings.micro_batch_size);
  if (!question.on_gpus) space.offload = false;  // moments lie in the host's memory anyway
  return question;
}

Result<std::vector<Trial>> search_candidates(const PredictionBasis& basis, const StageOrigins& origins,
                                             const PlannedStage& tune, const PlannedStage& target,
                                             const SiteConfig& site) {
  LH_TRY(LayoutRequest question, tuning_question(basis, origins, tune, target, site));
  question.search.best = question.on_gpus ? searched : searched_on_processors;
  if (!question.on_gpus) question.search.memory_limit = any_memory;
  LH_TRY(const SearchOutcome found, search_layouts(question.search));
  std::vector<RankedLayout> chosen = unlike_first(found.best);
  if (!question.on_gpus) {
    LH_TRY(chosen, those_that_fit(worth_planning(std::move(chosen)), {target, site, ranks_of_a_node(target)}));
  }
  if (chosen.size() > candidates_max) chosen.resize(candidates_max);
  std::vector<Trial> trials;
  for (const RankedLayout& ranked : chosen) {
    Trial trial;
    trial.settings = written_over(target.settings, ranked.layout, question.search.space.offload);
    trial.name = candidate_name(trial.settings);
    trial.predicted_seconds = ranked.seconds(), trial.predicted_sigma = ranked.time.sigma;
    trial.correction = ranked.time.correction, trial.predicted_from = question.source;
    trial.like = likeness_of(question.search.task, ranked.layout);
    if (question.on_gpus) trial.predicted_bytes = static_cast<std::int64_t>(ranked.memory.total());
    trials.push_back(std::move(trial));
  }
  return trials;
}

// As the candidate would be trained: with its own ranks and nodes.
Result<LayoutForecast> candidate_forecast(const PredictionBasis& basis, const StageOrigins& origins,
                                          const PlannedStage& target, const Trial& trial, const SiteConfig& site) {
  LH_TRY(const PlannedStage stage, stage_with(target, trial.settings));
  const int nodes = std::max(1, stage.common.nodes), ranks = stage.dims.world_size();
  LH_TRY(const LayoutRequest question, layout_request(stage, site, basis, (ranks + nodes - 1) / nodes, origins));
  return forecast_layout(question.search, question.layout, trial.name);
}

Result<TuningForecast> forecast_candidates(const PredictionBasis& basis, const StageOrigins& origins,
                                           const PlannedStage& tune, const PlannedStage& target,
                                           const std::vector<Trial>& candidates, const SiteConfig& site) {
  LH_TRY(LayoutRequest question, tuning_question(basis, origins, tune, target, site));
  TuningForecast forecast;
  forecast.device = question.device, forecast.source = question.source;
  if (question.search.memory_limit < 1e17) forecast.memory_limit = question.search.memory_limit;
  for (const Trial& trial : candidates)
    if (auto one = candidate_forecast(basis, origins, target, trial, site); one.ok())
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

LayoutSearch layout_search_with(const std::string& constants_path, const std::string& measured_path) {
  return [constants_path, measured_path](const RunPlan& plan, const PlannedStage& tune, const PlannedStage& target,
                                         const SiteConfig& site) -> Result<std::vector<Trial>> {
    LH_TRY(const PredictionBasis basis, read_basis(constants_path, measured_path));
    return search_candidates(basis, origins_of(plan, target), tune, target, site);
  };
}

LayoutForecasts layout_forecasts_with(const std::string& constants_path, const std::string& measured_path) {
  return [constants_path, measured_path](const RunPlan& plan, const PlannedStage& tune, const PlannedStage& target,
                                         const std::vector<Trial>& candidates,
                                         const SiteConfig& site) -> Result<TuningForecast> {
    LH_TRY(const PredictionBasis basis, read_basis(constants_path, measured_path));
    return forecast_candidates(basis, origins_of(plan, target), tune, target, candidates, site);
  };
}

StepPrediction step_prediction_with(const std::string& constants_path) {
  return [constants_path](const RunPlan& plan, const PlannedStage& stage,
                          const SiteConfig& site) -> Result<MeasuredTraining> {
    LH_TRY(const PredictionBasis basis, read_basis(constants_path, ""));
    const int nodes = std::max(1, stage.common.nodes), ranks = stage.dims.world_size();
    LH_TRY(const LayoutRequest question,
           layout_request(stage, site, basis, (ranks + nodes - 1) / nodes, origins_of(plan, stage)));
    LH_TRY(const StepTime time, step_time(question.search.task, question.layout, question.search.place));
    MeasuredTraining one;
    one.name = layout_text(question.layout), one.device = question.device;
    one.like = likeness_of(question.search.task, question.layout), one.predicted = time.seconds();
    return one;
  };
}

}  // namespace longhaul
