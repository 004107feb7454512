// What evaluate measures about a reward model.
#pragma once

#include "contracts/settings/stages/reward_form.h"
#include "engine/tasks/common/measure.h"

namespace longhaul {

// reward_accuracy: the chosen answer of a pair has the larger reward; with its Wilson interval, its standard error, the
// same of each category, and what a rule that looks at nothing but the length would have. Pairs that are longer than
// the context are left out and counted.
Result<MeasuredItems> measure_rewards(TaskRun& run, ScoringModel& model, const RewardForm& form,
                                      const std::string& file, std::span<const std::string> ignore);

// Of a model of attributes its numbers for answers, beside the values that rows have (rows may have none, which labels
// them: samples.jsonl has the numbers); of a model of steps what it finds wrong: figures of rating_figures.h.
Result<MeasuredItems> measure_ratings(TaskRun& run, ScoringModel& model, const RewardForm& form,
                                      const std::string& file, std::span<const std::string> ignore);

}  // namespace longhaul
