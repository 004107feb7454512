#include "orchestrator/preflight/plan_forecasts.h"

#include <algorithm>

#include "base/text/text.h"
#include "contracts/settings/job/resumable.h"
#include "contracts/settings/training/training.h"
#include "orchestrator/forecast/checkpoint_forecast.h"
#include "orchestrator/forecast/processor_memory.h"
#include "orchestrator/forecast/rollout_request.h"
#include "orchestrator/preflight/memory_check.h"

namespace longhaul {
namespace {

double worst_bytes(const NodeMemory& node) {
  return static_cast<double>(node.worst.plan.bytes.total());
}

// The fastest layout that fits, where the one as written does not.
Status find_what_fits(SearchRequest question, const ProcessorMemory& memory, TrainingForecast& f) {
  question.best = 400;
  LH_TRY(const SearchOutcome found, search_layouts(question));
  for (const RankedLayout& ranked : found.best) {
    const auto node = memory.of(ranked.layout);
    if (!node.ok() || !memory.fits(*node)) continue;
    LH_TRY(LayoutForecast shown, forecast_layout(question, ranked.layout, "the best one that fits"));
    shown.memory = worst_bytes(*node);
    f.better = ranked;
    f.tuning.candidates.push_back(std::move(shown));
    return {};
  }
  f.notes.push_back(format("none of the {} fastest layouts fits", found.best.size()));
  return {};
}

// The ranks of a node share its memory: there is as much for the worst as its part of what all of them need.
Status plan_processor_memory(const SearchRequest& question, const ProcessorMemory& memory, TrainingForecast& f) {
  const auto of_stage = memory.as_written();
  if (!of_stage.ok() && of_stage.error().code == ErrorCode::unsupported) {
    f.memory = f.tuning.memory_limit = 0, f.memory_limit = any_memory;
    for (LayoutForecast& one : f.tuning.candidates) one.memory = 0;
    f.tuning.front.clear();
    return {};
  }
  LH_TRY(const NodeMemory node, of_stage);
  f.memory = f.tuning.candidates.front().memory = worst_bytes(node);
  const double there_is = memory.there_is() * f.memory / static_cast<double>(node.bytes);
  f.tuning.memory_limit = there_is;
  f.memory_limit = there_is > 0 ? there_is : any_memory;
  f.tuning.front.clear();
  if (f.better) {
    const auto better = memory.of(f.better->layout);
    if (better.ok() && memory.fits(*better)) {
      f.tuning.candidates.back().memory = worst_bytes(*better);
      return {};
    }
    f.better.reset();
    f.tuning.candidates.pop_back();
  }
  if (memory.fits(node) || f.layout.dims.world_size() == 1) return {};
  return find_what_fits(question, memory, f);
}

// What the stage's checkpoints cost, where it trains on GPUs: on processors they are small beside a step.
void add_checkpoints(const PlannedStage& stage, const SiteConfig& site, const ModelShape& shape, TrainingForecast& f) {
  const Value* written = stage.settings.find("optimizer");
  const auto optimizer = optimizer_fields().parse(written != nullptr ? *written : Value::make_table(), "");
  if (!optimizer.ok() || !f.on_gpus) return;
  const CheckpointForecast one = checkpoint_forecast(shape, *optimizer, site, stage.common.nodes);
  f.checkpoint_bytes = one.bytes, f.checkpoint_seconds = one.seconds;
  f.notes.push_back(checkpoint_text(one));
}

Result<TrainingForecast> forecast_of_layout(const LayoutRequest& question, std::int64_t steps, ForecastSearch search) {
  auto made = forecast_training(question.search, question.layout, steps, search == ForecastSearch::always);
  if (!made.ok() || search == ForecastSearch::always || made->memory <= made->memory_limit) return made;
  return forecast_training(question.search, question.layout, steps, true);
}

TrainingForecast forecast_of(const RunPlan& plan, const PlannedStage& stage, const SiteConfig& site, int ranks_per_node,
                             const PredictionBasis& basis, ForecastSearch search) {
  TrainingForecast none;
  none.stage = stage.id();
  const bool generates = generates_its_rows(stage);
  const auto ask = generates ? layout_request_of_rollouts : layout_request;
  auto question = ask(stage, site, basis, ranks_per_node, origins_of(plan, stage));
  if (!question.ok()) {
    none.problem = question.error().message();
    return none;
  }
  if (!question->on_gpus) question->search.memory_limit = any_memory;  // judged below
  // Layouts of one rank leave nothing to search, and an align stage has few of its own.
  const bool searched = stage.dims.world_size() > 1 && stage.kind != "align";
  const std::int64_t steps = configured_steps(stage.settings);
  auto made = searched ? forecast_of_layout(*question, steps, search)
                       : forecast_training(question->search, question->layout, steps, false);
  if (!made.ok()) {
    none.problem = made.error().message();
    return none;
  }
  made->stage = stage.id(), made->device = question->device, made->on_gpus = question->on_gpus;
  made->source = question->source;
  made->tuning.device = question->device, made->tuning.source = question->source;
  made->notes.insert(made->notes.begin(), question->notes.begin(), question->notes.end());
  if (!question->search.measured.empty())
    made->notes.push_back(format("corrected by {:+.1f} %: step times measured here: {}, the last by {}",
                                 100 * (made->time.correction - 1), question->search.measured.size(),
                                 basis.measured.newest_of(question->device)));
  made->nodes = stage.common.nodes;
  if (generates) {
    const auto rollout = rollout_forecast(stage, site, basis.constants, *question, shapes_beside(plan, stage),
                                          ranks_per_node, made->time.seconds(), made->notes);
    if (!rollout.ok()) {
      none.problem = rollout.error().message();
      return none;
    }
    add_rollout(*made, *rollout);
    if (made->on_gpus) made->memory += rollout->memory;
  }
  add_checkpoints(stage, site, question->search.task.shape, *made);
  if (!made->on_gpus) {
    const PlannedStage known = with_vocabulary(stage, plan);
    const Status planned = plan_processor_memory(question->search, {known, site, ranks_per_node}, *made);
    if (!planned.ok()) {
      none.problem = planned.error().message();
      return none;
    }
  }
  if (searched && search == ForecastSearch::always && made->on_gpus && made->nodes > 1 && ranks_per_node > 0) {
    auto after = layout_after_loss(question->search, made->nodes - 1, ranks_per_node);
    if (after.ok()) {
      made->after_loss = *after;
      auto shown = forecast_layout(question->search, after->best.layout, "the best with one node less");
      if (shown.ok()) made->tuning.candidates.push_back(std::move(shown).value());
    }
  }
  return std::move(*made);
}

// The phase that takes longest, with the memory of the one that needs most and the time of all.
TrainingForecast forecast_of_phases(const RunPlan& plan, const PlannedStage& stage, const SiteConfig& site,
                                    int ranks_per_node, const PredictionBasis& basis, ForecastSearch search) {
  const auto settings = pretrain_fields().parse(stage.settings, "");
  const auto phases = settings.ok() ? phases_of(*settings, false) : Result<PhasePlan>(settings.error());
  TrainingForecast longest;
  longest.stage = stage.id();
  if (!phases.ok()) {
    longest.problem = phases.error().message();
    return longest;
  }
  std::vector<std::string> step_times;
  double all_seconds = 0, memory = 0;
  for (const PlannedPhase& phase : phases->phases) {
    PlannedStage alone = stage;
    if (auto one = phase_alone(stage.settings, phase.name); one.ok()) alone.settings = std::move(*one);
    TrainingForecast f = forecast_of(plan, alone, site, ranks_per_node, basis, search);
    if (!f.problem.empty()) return f;
    step_times.push_back(format("{} {:.3g} s", phase.name, f.seconds()));
    all_seconds += f.duration(), memory = std::max(memory, f.memory);
    if (step_times.size() == 1 || f.duration() > longest.duration()) longest = std::move(f);
  }
  longest.notes.push_back(format("trains in phases, a step of which takes: {}", join(step_times, ", ")));
  longest.gpu_hours *= all_seconds / longest.duration(), longest.energy_kwh *= all_seconds / longest.duration();
  longest.all_seconds = all_seconds, longest.memory = memory, longest.steps = phases->steps;
  return longest;
}

SiteConfig with_granted_memory(SiteConfig site, const JobPlan& job) {
  for (const Directive& directive : job.directives)
    if (directive.option == "mem")
      if (const std::int64_t bytes = slurm_memory_bytes(directive.value); bytes > 0) site.node.memory.value = bytes;
  return site;
}

}  // namespace

std::vector<TrainingForecast> plan_forecasts(const RunPlan& plan, const SiteConfig& site,
                                             const std::vector<JobPlan>& jobs, const PredictionBasis& basis,
                                             ForecastSearch search) {
  std::vector<TrainingForecast> forecasts;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const PlannedStage& stage = plan.stages[i];
    if (!trains(stage.kind)) continue;
    const int ranks_per_node = i < jobs.size() ? jobs[i].ranks_per_node : 0;
    const auto& forecast = stage.settings.find("phase") ? forecast_of_phases : forecast_of;
    const SiteConfig granted = i < jobs.size() ? with_granted_memory(site, jobs[i]) : site;
    forecasts.push_back(forecast(plan, stage, granted, ranks_per_node, basis, search));
  }
  return forecasts;
}

}  // namespace longhaul
