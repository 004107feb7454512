// How a search stage is read: with the stage that it is for, whose settings its space varies.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "orchestrator/workflow/source/param_uses.h"
#include "orchestrator/workflow/trials/tune_plan.h"

namespace longhaul {

struct SearchParams {
  const Value& declared;  // the workflow's
  // Also in recipes.
  std::function<std::vector<ParamUse>(const std::string& name)> uses;
};

// Completes `settings` by the length of a training, by what the trials are of, and by the settings that params.NAME of
// the space stands for; and `common` by what the target asks of the scheduler. params.NAME can vary where the tuned
// stage alone uses it, as the whole value of a setting: then it is that setting. Everything that is wrong goes to the
// diagnostics, at the place of the parameter that is; every value of a list and both ends of a range are tried on the
// stage.
void plan_search_stage(const TunePlanning& planning, const SearchParams& params, Value& settings, StageCommon& common,
                       Diagnostics& diagnostics);

struct FinderStage {
  std::string name, kind;
  const Value& written;  // its table
};
// A stage's key "@finder": `parallel` names a tune stage, `hyperparameters` a search stage, and it has to be for
// `stage`.
void check_found_by(const std::string& stage, const std::string& key, const FinderStage& finder, const SourcePos& where,
                    Diagnostics& diagnostics);
// The key `hyperparameters` of a stage's table, as far as it can be judged alone.
void check_hyperparameters_key(const std::string& where, const std::string& kind, const Value& table,
                               Diagnostics& diagnostics);
// The search stage that a stage's table names: "search" of hyperparameters = "@search"; "" for any other.
std::string search_stage_of(const Value& written);

}  // namespace longhaul
