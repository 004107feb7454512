#include "orchestrator/controller/plan_forecasts.h"

#include "contracts/memory_plan.h"
#include "orchestrator/controller/layout_candidates.h"
#include "orchestrator/controller/layout_question.h"
#include "orchestrator/controller/stage_outline.h"
#include "orchestrator/workflow/trial_stage.h"

namespace longhaul {
namespace {

// Of the node whose ranks will hold most together.
Result<NodeMemory> fullest_node(const PlannedStage& stage, const SiteConfig& site, int ranks_per_node) {
  LH_TRY(const TrainingOutline outline, stage_outline(stage, site));
  const int ranks = ranks_per_node > 0 ? ranks_per_node : stage.dims.world_size();
  NodeMemory fullest;
  for (const std::vector<int>& of_node : ranks_by_node(outline.dims, ranks)) {
    LH_TRY(const NodeMemory node, plan_node_memory(outline, of_node));
    if (node.bytes > fullest.bytes) fullest = node;
  }
  return fullest;
}

// On processors the engine's own plan stands in place of the closed form, which is that of GPUs. The ranks of a node
// share its memory: there is as much for the worst as its part of what all of them need.
Status plan_processor_memory(const PlannedStage& stage, const SiteConfig& site, int ranks_per_node,
                             TrainingForecast& f) {
  constexpr double unknown = 1e18;
  const auto there_is = static_cast<double>(site.node.memory.value);
  LH_TRY(const NodeMemory node, fullest_node(stage, site, ranks_per_node));
  const auto worst = static_cast<double>(node.worst.plan.bytes.total());
  f.memory = worst;
  f.memory_limit = there_is > 0 ? there_is * worst / static_cast<double>(node.bytes) : unknown;
  f.tuning.memory_limit = there_is > 0 ? f.memory_limit : 0;
  f.tuning.candidates.front().memory = worst;
  f.tuning.front.clear();
  if (!f.better) return {};
  LayoutForecast& better = f.tuning.candidates.back();
  const auto laid_out = stage_with(stage, written_layout(f.better->layout));
  const auto found =
      laid_out.ok() ? fullest_node(*laid_out, site, ranks_per_node) : Result<NodeMemory>(laid_out.error());
  const bool fits = found.ok() && (there_is == 0 || static_cast<double>(found->bytes) <= there_is);
  const bool pays = f.memory > f.memory_limit || f.better->seconds() < f.seconds();
  if (fits && pays) {
    better.memory = static_cast<double>(found->worst.plan.bytes.total());
    return {};
  }
  f.better.reset();
  f.tuning.candidates.pop_back();
  return {};
}

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
  if (!made->on_gpus)
    if (const Status planned = plan_processor_memory(with_vocabulary(stage, plan), site, ranks_per_node, *made);
        !planned.ok()) {
      none.problem = planned.error().message();
      return none;
    }
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
