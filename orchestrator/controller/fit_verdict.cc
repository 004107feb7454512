#include "orchestrator/controller/fit_verdict.h"

#include "autotune/trials/layout_artifact.h"
#include "base/text.h"
#include "orchestrator/controller/written_layout.h"

namespace longhaul {
namespace {

constexpr const char* override_text = "; --ignore-memory goes on all the same";

// "parallel = { dp_shard = 256, zero = 1 }, micro_batch_size = 1"
std::string keys_text(const Value& settings) {
  std::vector<std::string> keys;
  for (const ValueMember& member : settings.as_table()) keys.push_back(member.key + " = " + inline_toml(member.value));
  return join(keys, ", ");
}

std::string remedy_of(const PlannedStage& stage, const TrainingForecast& f) {
  const bool better_fits =
      f.better && (f.tuning.candidates.empty() || f.tuning.candidates.back().memory <= f.memory_limit);
  if (better_fits)
    return format("the fastest layout that fits: {} ({})",
                  keys_text(written_over(stage.settings, f.better->layout, f.on_gpus)), layout_text(f.better->layout));
  std::string remedy =
      "no layout of its ranks that was looked at fits: use more nodes, shorter sequences, a smaller model";
  if (!f.notes.empty()) remedy += "; " + f.notes.back();
  return remedy;
}

}  // namespace

void check_forecasts_fit(const RunPlan& plan, const std::vector<TrainingForecast>& forecasts,
                         Diagnostics& diagnostics) {
  for (const TrainingForecast& f : forecasts) {
    const PlannedStage* stage = plan.find(f.stage);
    if (!stage || !stage->layout_from.empty() || !f.problem.empty() || f.memory <= f.memory_limit) continue;
    diagnostics.add(stage->place_of("parallel"),
                    format("stage.{} does not fit: a rank needs {} and there are {} ({})", f.stage,
                           human_bytes(f.memory), human_bytes(f.memory_limit), f.device),
                    remedy_of(*stage, f) + override_text);
  }
}

}  // namespace longhaul
