#include "orchestrator/controller/plan_forecasts.h"

#include <algorithm>

#include "base/text.h"
#include "contracts/settings/training.h"

namespace longhaul {
namespace {

TrainingForecast forecast_of(const RunPlan& plan, const PlannedStage& stage, const SiteConfig& site, int ranks_per_node,
                             const PredictionBasis& basis) {
  TrainingForecast none;
  none.stage = stage.id();
  auto question = layout_question(stage, site, basis, ranks_per_node, origins_of(plan, stage));
  if (!question.ok()) {
    none.problem = question.error().message();
    return none;
  }
  // Layouts of one rank leave nothing to search.
  auto made = forecast_training(question->search, question->layout, configured_steps(stage.settings),
                                stage.dims.world_size() > 1);
  if (!made.ok()) {
    none.problem = made.error().message();
    return none;
  }
  made->stage = stage.id(), made->device = question->device, made->on_gpus = question->on_gpus;
  made->tuning.device = question->device;
  made->notes.insert(made->notes.begin(), question->notes.begin(), question->notes.end());
  if (!question->search.measured.empty())
    made->notes.push_back(format("corrected by {:+.1f} %: step times measured here: {}, the last by {}",
                                 100 * (made->time.correction - 1), question->search.measured.size(),
                                 basis.measured.newest_of(question->device)));
  made->nodes = stage.common.nodes;
  if (made->on_gpus && made->nodes > 1 && ranks_per_node > 0) {
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
                                    int ranks_per_node, const PredictionBasis& basis) {
  const auto settings = pretrain_fields().parse(stage.settings, "");
  const auto phases = settings.ok() ? phases_of(*settings, false) : Result<PhasePlan>(settings.error());
  TrainingForecast longest;
  longest.stage = stage.id();
  if (!phases.ok()) {
    longest.problem = phases.error().message();
    return longest;
  }
  std::vector<std::string> told;
  double all_seconds = 0, memory = 0;
  for (const PlannedPhase& phase : phases->phases) {
    PlannedStage alone = stage;
    if (auto one = phase_alone(stage.settings, phase.name); one.ok()) alone.settings = std::move(*one);
    TrainingForecast f = forecast_of(plan, alone, site, ranks_per_node, basis);
    if (!f.problem.empty()) return f;
    told.push_back(format("{} {:.3g} s", phase.name, f.seconds()));
    all_seconds += f.duration(), memory = std::max(memory, f.memory);
    if (told.size() == 1 || f.duration() > longest.duration()) longest = std::move(f);
  }
  longest.notes.push_back(format("trains in phases, a step of which takes: {}", join(told, ", ")));
  longest.gpu_hours *= all_seconds / longest.duration(), longest.energy_kwh *= all_seconds / longest.duration();
  longest.all_seconds = all_seconds, longest.memory = memory, longest.steps = phases->steps;
  return longest;
}

}  // namespace

std::vector<TrainingForecast> plan_forecasts(const RunPlan& plan, const SiteConfig& site,
                                             const std::vector<JobPlan>& jobs, const PredictionBasis& basis) {
  std::vector<TrainingForecast> forecasts;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const PlannedStage& stage = plan.stages[i];
    if (stage.kind != "pretrain" && stage.kind != "sft" && stage.kind != "align") continue;
    const int ranks_per_node = i < jobs.size() ? jobs[i].ranks_per_node : 0;
    const auto& forecast = stage.settings.find("phase") ? forecast_of_phases : forecast_of;
    forecasts.push_back(forecast(plan, stage, site, ranks_per_node, basis));
  }
  return forecasts;
}

}  // namespace longhaul
