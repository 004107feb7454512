#include "orchestrator/workflow/effect_warnings.h"

#include <algorithm>

#include "base/text/text.h"
#include "contracts/settings/job/resumable.h"

namespace longhaul {
namespace {

constexpr double usual_lr_max = 1;

std::string steps_text(std::int64_t steps) {
  return format("{} step{}", steps, steps == 1 ? "" : "s");
}

}  // namespace

std::vector<SettingEffect> setting_effects(const PlannedStage& stage, bool writes_epochs) {
  std::vector<SettingEffect> effects;
  if (!trains(stage.kind)) return effects;
  const Value* optimizer = stage.settings.find("optimizer");
  const std::int64_t steps = stage.settings.get_integer("steps");
  if (steps > 0 && writes_epochs)
    effects.push_back(
        {{"epochs"}, format("epochs is not used, for steps = {} says how long it is", steps), "leave one of them out"});
  if (optimizer == nullptr || !optimizer->is_table()) return effects;
  const std::int64_t warmup = optimizer->get_integer("warmup_steps");
  if (steps > 0 && warmup > steps / 2)
    effects.push_back({{"optimizer.warmup_steps", "steps"},
                       format("optimizer.warmup_steps = {} is more than half of {}: it warms up for {}", warmup,
                              steps_text(steps), steps / 2),
                       "more steps, or a shorter warm-up"});
  if (const double lr = optimizer->get_number("lr"); lr > usual_lr_max)
    effects.push_back({{"optimizer.lr", "optimizer"},
                       format("optimizer.lr = {:g} is more than {:g}", lr, usual_lr_max),
                       "learning rates of language models are between 1e-6 and 1e-2"});
  return effects;
}

std::vector<std::string> effect_warnings(const WrittenStages& written, const RunPlan& plan) {
  std::vector<std::string> said;
  for (const PlannedStage& stage : plan.stages)
    for (const SettingEffect& effect :
         setting_effects(stage, written.says(stage, "epochs") && written.says(stage, "steps"))) {
      Error one = make_error(ErrorCode::invalid_input, "stage." + stage.stage + ": " + effect.what, effect.hint);
      one.where = written.place(stage, effect.keys);
      std::string text = one.message();
      if (std::find(said.begin(), said.end(), text) == said.end()) said.push_back(std::move(text));  // of many variants
    }
  return said;
}

}  // namespace longhaul
