#include "orchestrator/controller/plan_forecasts.h"

#include "contracts/settings/training.h"
#include "orchestrator/controller/layout_question.h"

namespace longhaul {
namespace {

TrainingForecast forecast_of(const RunPlan& plan, const PlannedStage& stage, const SiteConfig& site, int ranks_per_node,
                             const TimeConstants& constants) {
  TrainingForecast none;
  none.stage = stage.id();
  auto question = layout_question(stage, site, constants, ranks_per_node, vocabulary_behind(plan, stage));
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

}  // namespace

std::vector<TrainingForecast> plan_forecasts(const RunPlan& plan, const SiteConfig& site,
                                             const std::vector<JobPlan>& jobs, const TimeConstants& constants) {
  std::vector<TrainingForecast> forecasts;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const PlannedStage& stage = plan.stages[i];
    if (stage.kind != "pretrain" && stage.kind != "sft" && stage.kind != "align") continue;
    const int ranks_per_node = i < jobs.size() ? jobs[i].ranks_per_node : 0;
    forecasts.push_back(forecast_of(plan, stage, site, ranks_per_node, constants));
  }
  return forecasts;
}

}  // namespace longhaul
