#include "orchestrator/workflow/trials/search_trial.h"

#include "base/text/text.h"
#include "orchestrator/workflow/source/overrides.h"
#include "orchestrator/workflow/trials/trial_stage.h"

namespace longhaul {

Value as_settings(const Value& configuration, const Value& stands_for) {
  Value settings = Value::make_table();
  if (!configuration.is_table()) return settings;
  for (const ValueMember& member : configuration.as_table()) {
    const Value* paths = stands_for.find(member.key);
    if (!paths || !paths->is_array()) {
      set_at_path(settings, split(member.key, '.'), member.value, {});
      continue;
    }
    for (const Value& path : paths->as_array())
      if (path.is_string()) set_at_path(settings, split(path.as_string(), '.'), member.value, {});
  }
  return settings;
}

Result<hyper::Halving> halving_of(const PlannedStage& search) {
  const Value* target = search.settings.find(search_target_key);
  const Value* settings = target ? target->find("settings") : nullptr;
  if (!settings) return make_error(ErrorCode::corrupt, "the plan does not say what stage " + search.id() + " is for");
  Diagnostics diagnostics;
  HyperSearchSettings read = parse_hyper_search(search.settings, "stage." + search.id(), diagnostics,
                                                {search_for_key, search_target_key, search_params_key});
  LH_CHECK(diagnostics.to_status(""));
  return hyper::Halving(std::move(read), settings->get_integer("global_batch_size"));
}

Value stands_for_of(const PlannedStage& search) {
  const Value* paths = search.settings.find(search_params_key);
  return paths ? *paths : Value();
}

Result<PlannedStage> search_trial(const PlannedStage& search, const hyper::TrialStart& start,
                                  const std::vector<TaskInput>& inputs) {
  LH_TRY(const PlannedStage target, target_of(search));
  LH_TRY(PlannedStage made, stage_with_settings(target, as_settings(start.settings, stands_for_of(search))));
  run_as_trial(search, start.trial, inputs, made);
  made.common.infrastructure_retries = 0;
  Value& settings = made.settings;
  settings.set("steps", static_cast<long long>(start.to_step));
  for (const char* key : {"eval_every_steps", "milestone_every"})
    if (settings.find(key)) settings.set(key, 0);
  if (settings.find("tensorboard")) settings.set("tensorboard", false);
  if (Value* trace = settings.find("trace")) trace->set("steps", 0);
  if (Value* checkpoint = settings.find("checkpoint")) {
    checkpoint->set("keep_every", 0);
    checkpoint->set("keep_best", 0);
    checkpoint->set("at_end", true);
  }
  return made;
}

}  // namespace longhaul
