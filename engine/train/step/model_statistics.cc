#include "engine/train/step/model_statistics.h"

#include "engine/train/optimizer/expert_bias.h"

namespace longhaul {

Status end_step_of_experts(const ComputeContext& context, Mesh& mesh, ParameterStore& store,
                           const std::vector<Llama*>& stages, bool moves_bias, double count, StepReport& report) {
  if (!stages.front()->experts()) return {};
  MoeTotals totals = stages.front()->experts()->take_totals();
  for (std::size_t chunk = 1; chunk < stages.size(); ++chunk) {
    const MoeTotals more = stages[chunk]->experts()->take_totals();
    for (std::size_t i = 0; i < totals.values.size(); ++i) totals.values[i] += more.values[i];
  }
  LH_CHECK(mesh.data().sum_along_tree(totals.values));
  LH_CHECK(mesh.pipeline().sum_along_tree(totals.values));
  report.load = expert_load(totals);
  const MoeSettings& settings = stages.front()->experts()->settings();
  for (int layer = 0; layer < static_cast<int>(totals.layers); ++layer) {
    report.balance_loss += static_cast<double>(totals.balance_loss(layer)) / count;
    report.z_loss += static_cast<double>(totals.z_loss(layer)) / count;
    if (settings.balance == "bias" && moves_bias)
      step_expert_bias(context, store, stages, layer, static_cast<float>(settings.bias_rate), totals.counts(layer));
  }
  return {};
}

void discard_expert_counts(const std::vector<Llama*>& stages) {
  for (Llama* stage : stages)
    if (stage->experts()) (void)stage->experts()->take_totals();
}

void begin_step_of_low_precision(const ComputeContext& context, const std::vector<Llama*>& stages, std::int64_t step) {
  for (Llama* stage : stages)
    if (stage->low_precision()) stage->low_precision()->begin_step(step, &context);
}

Status end_step_of_low_precision(CollectiveGroup& world, const std::vector<Llama*>& stages, StepReport& report) {
  LowPrecisionState* const state = stages.front()->low_precision();
  if (!state) return {};
  const bool measures = state->measures();
  LowPrecisionSeen seen = state->take_seen();
  for (std::size_t chunk = 1; chunk < stages.size(); ++chunk) seen.merge(stages[chunk]->low_precision()->take_seen());
  // Ranks in order, so that all of them make the same decisions.
  const std::vector<double> mine = seen.packed();
  std::vector<double> all(mine.size() * static_cast<std::size_t>(world.size()));
  LH_CHECK(world.all_gather(mine, all));
  const auto layers = static_cast<std::size_t>(state->layers());
  const auto of_rank = [&](std::size_t at) {
    return LowPrecisionSeen::from_packed(std::span(all).subspan(at, mine.size()), layers, measures);
  };
  LowPrecisionSeen merged = of_rank(0);
  for (std::size_t at = mine.size(); at < all.size(); at += mine.size()) merged.merge(of_rank(at));
  report.multiplies_low = state->device().multiplies();
  for (Llama* stage : stages) {
    report.verdicts = stage->low_precision()->end_step(report.step, merged);
    stage->low_precision()->device().take_notes(report.low_precision_notes);
  }
  return {};
}

Value low_precision_state_of(const std::vector<Llama*>& stages) {
  LowPrecisionState* const state = stages.front()->low_precision();
  return state ? state->state() : Value();
}

Status restore_low_precision_of(const std::vector<Llama*>& stages, const Value& state) {
  for (Llama* stage : stages)
    if (stage->low_precision()) LH_CHECK(stage->low_precision()->restore(state));
  return {};
}

void set_evaluates(const std::vector<Llama*>& stages, bool evaluates) {
  for (Llama* stage : stages)
    if (MoeState* experts = stage->experts()) experts->evaluates = evaluates;
  for (Llama* stage : stages)
    if (LowPrecisionState* low = stage->low_precision()) low->evaluates = evaluates;
}

}  // namespace longhaul
