#include "orchestrator/fit/saved_bytes.h"

#include <algorithm>
#include <numeric>

#include "contracts/milestone.h"
#include "contracts/resumable.h"
#include "contracts/settings/training.h"
#include "contracts/training_outline.h"
#include "orchestrator/controller/layout_question.h"

namespace longhaul {
namespace {

std::optional<ModelShape> shape_of(const RunPlan& plan, const PlannedStage& stage) {
  const StageOrigins origins = origins_of(plan, stage);
  if (origins.model) return origins.model;
  const bool given = std::any_of(stage.inputs.begin(), stage.inputs.end(),
                                 [](const PlannedInput& input) { return input.name == "model"; });
  const auto settings = pretrain_fields().parse(stage.settings, "");
  if (stage.kind != "pretrain" || given || !settings.ok()) return std::nullopt;
  auto shape = resolve_shape(settings->model);
  if (!shape.ok()) return std::nullopt;
  if (shape->vocab_size == 0) shape->vocab_size = origins.vocabulary;
  return *shape;
}

template <class Settings>
Settings group_in(const Value& settings, const char* key, const FieldTable<Settings>& fields) {
  Diagnostics ignored;  // other checks have reported it
  const Value* group = settings.find(key);
  return group != nullptr && group->is_table() ? fields.parse(*group, "", ignored) : Settings{};
}

}  // namespace

std::optional<SavedBytes> saved_bytes(const RunPlan& plan, const PlannedStage& stage) {
  if (!trains(stage.kind)) return std::nullopt;
  const auto shape = shape_of(plan, stage);
  if (!shape) return std::nullopt;
  const auto checkpoint = group_in(stage.settings, "checkpoint", checkpoint_fields());
  TrainingOutline moments;
  moments.set_moments(group_in(stage.settings, "optimizer", optimizer_fields()));
  SavedBytes saved;
  const auto weights = static_cast<double>(shape->parameter_count());
  saved.checkpoint = weights * (4 + moments.moment_bytes());
  saved.model_low = 2 * weights, saved.model = 4 * weights;
  const ParallelDims& dims = stage.dims;
  saved.files_low = std::int64_t{dims.tp} * dims.pp * (dims.zero > 0 ? dims.dp_shard : 1) + 1;
  saved.files = dims.world_size() + 2;
  saved.milestones = static_cast<std::int64_t>(milestone_steps(stage.settings).size());

  const std::int64_t steps = configured_steps(stage.settings), every = checkpoint.every_steps;
  const std::int64_t keep = checkpoint.keep_last;
  const std::int64_t within = every > 0 && steps > 0 ? (steps - 1) / every : 0;
  const std::int64_t made = within + (checkpoint.at_end ? 1 : 0);
  if (every > 0 && steps > 0 && checkpoint.keep_every > 0)
    saved.kept_for_good = steps / std::lcm(every, checkpoint.keep_every);
  saved.kept_low = std::max(std::min(made, keep + 1), std::min(made, saved.kept_for_good + 1));
  // Without a number of steps, and by hand, as many as the rules allow.
  saved.kept = saved.kept_for_good + keep + checkpoint.keep_best + 1;
  if (every > 0 && steps > 0) saved.kept = std::max(saved.kept_low, std::min(saved.kept, made));
  return saved;
}

}  // namespace longhaul
