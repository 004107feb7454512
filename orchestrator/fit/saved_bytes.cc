#include "orchestrator/fit/saved_bytes.h"

#include <algorithm>
#include <numeric>

#include "base/text/text.h"
#include "contracts/records/milestone.h"
#include "contracts/settings/job/resiliency.h"
#include "contracts/settings/job/resumable.h"
#include "contracts/settings/training/training.h"
#include "orchestrator/forecast/checkpoint_forecast.h"
#include "orchestrator/forecast/stage_shape.h"
#include "resiliency/checkpoint_interval.h"

namespace longhaul {
namespace {

template <class Settings>
Settings group_in(const Value& settings, const char* key, const FieldTable<Settings>& fields) {
  Diagnostics ignored;  // other checks have reported it
  const Value* group = settings.find(key);
  return group != nullptr && group->is_table() ? fields.parse(*group, "", ignored) : Settings{};
}

// Of all steps by the middle of the forecast; 0: there is none.
double duration_of(const FitCase& fit, const PlannedStage& stage) {
  for (const TrainingForecast& f : fit.forecasts)
    if (f.stage == stage.id() && f.problem.empty() && f.steps > 0) return f.duration();
  return 0;
}

// Steps between two saves; 0: only the last one. Where the lead chooses: of an interval that is expected.
double steps_between(const FitCase& fit, const PlannedStage& stage, std::int64_t every, std::int64_t steps,
                     SavedBytes& saved) {
  if (every > 0) return static_cast<double>(every);
  const StageCommon& common = stage.common;
  const double duration = duration_of(fit, stage);
  if (duration <= 0 ||
      !chooses_interval(common.resiliency, stage.kind, stage.settings, common.nodes, common.time_limit.value))
    return 0;
  const double interval_s = std::max(
      saved.write_s, daly_interval_s(IntervalSettings().stall_prior_s, failure_prior_s(std::max(1, common.nodes))));
  saved.interval = format("every {}, as it is expected to be chosen", human_duration(interval_s));
  return std::max(1.0, interval_s / duration * static_cast<double>(steps));
}

void count_kept(const CheckpointSettings& checkpoint, std::int64_t steps, bool many, SavedBytes& saved) {
  const std::int64_t keep = checkpoint.keep_last, every = checkpoint.every_steps;
  const std::int64_t made = saved.made + (checkpoint.at_end ? 1 : 0);
  if (every > 0 && steps > 0 && checkpoint.keep_every > 0)
    saved.kept_for_good = steps / std::lcm(every, checkpoint.keep_every);
  saved.kept_low = std::max(std::min(made, keep + 1), std::min(made, saved.kept_for_good + 1));
  // Without a number of steps, and by hand, as many as the rules allow.
  saved.kept = saved.kept_for_good + keep + checkpoint.keep_best + 1;
  if (many) saved.kept = std::max(saved.kept_low, std::min(saved.kept, made));
}

}  // namespace

double SavedBytes::with_saves(double steps_s) const {
  const double all = static_cast<double>(made) * write_s;
  return beside ? std::max(steps_s, all) : steps_s + all;
}

std::optional<SavedBytes> saved_bytes(const FitCase& fit, const PlannedStage& stage) {
  if (!trains(stage.kind)) return std::nullopt;
  const auto shape = stage_shape(fit.plan, stage);
  if (!shape) return std::nullopt;
  const auto checkpoint = group_in(stage.settings, "checkpoint", checkpoint_fields());
  const CheckpointForecast one = checkpoint_forecast(*shape, group_in(stage.settings, "optimizer", optimizer_fields()),
                                                     fit.site.config, std::max(1, stage.common.nodes));
  SavedBytes saved;
  const auto weights = static_cast<double>(shape->parameter_count());
  saved.checkpoint = one.bytes, saved.write_s = one.seconds, saved.read_s = one.read_seconds;
  saved.write_from = one.from, saved.beside = checkpoint.asynchronous;
  saved.model_low = 2 * weights, saved.model = 4 * weights;
  const ParallelDims& dims = stage.dims;
  saved.files_low = std::int64_t{dims.tp} * dims.pp * (dims.zero > 0 ? dims.dp_shard : 1) + 1;
  saved.files = dims.world_size() + 2;
  saved.milestones = static_cast<std::int64_t>(milestone_steps(stage.settings).size());
  const std::int64_t steps = configured_steps(stage.settings);
  if (steps > 0)
    if (const double between = steps_between(fit, stage, checkpoint.every_steps, steps, saved); between > 0)
      saved.made = static_cast<std::int64_t>(static_cast<double>(steps - 1) / between);
  count_kept(checkpoint, steps, checkpoint.every_steps > 0 && steps > 0, saved);
  return saved;
}

}  // namespace longhaul
