#include "engine/tasks/stages/answer_memory.h"

#include <algorithm>

#include "base/text/text.h"
#include "contracts/model/parameter_layout.h"
#include "contracts/plan/memory_plan.h"
#include "contracts/plan/rollout/drawing_layout.h"
#include "engine/infer/generate/rollout_model.h"
#include "engine/model/inference/inference_memory.h"
#include "engine/model/inference/ranks/inference_ranks.h"
#include "engine/model/layers/activations.h"
#include "engine/model/store/model_folder.h"
#include "engine/tasks/common/training_stage.h"
#include "engine/tasks/rewards/reward_model.h"

namespace longhaul {
namespace {

// A cache for one text, which is read in pieces.
InferenceLoad scoring_load(std::int64_t length) {
  InferenceLoad load;
  load.context_length = length, load.tokens_max = std::min(length, scored_at_once);
  load.logits_rows = std::min(load.tokens_max, InferenceModel::logits_rows_max);
  return load;
}

// This rank's part of a model, in the layout that draws: its weights, and the rest as of a smaller model.
struct DrawnPart {
  std::int64_t elements = 0;
  ModelShape shape;
};

DrawnPart part_here(const ModelShape& shape, const MeshPlace& place) {
  const ParameterLayout layout(frozen_shape(shape), place);
  const int layers = place.stages.layers.empty() ? static_cast<int>(shape.num_hidden_layers)
                                                 : place.stages.layers[static_cast<std::size_t>(place.at.pp)];
  return {layout.flat_size(), part_of_model(shape, place.dims.tp, place.at.tp, layers)};
}

InferenceMemory plan_part(const DrawnPart& part, DType dtype, InferenceLoad load, const ParallelDims& drawing) {
  load.tp = drawing.tp;
  InferenceMemory memory = plan_inference_memory(part.shape, dtype, load);
  if (drawing.tp * drawing.pp > 1)
    memory.weights = part.elements * dtype_bytes(dtype) + weights_always_copied(part.shape, dtype);
  return memory;
}

// The largest part of a parameter that passes by while weights are brought together
// (engine/tasks/drawing/drawing_weights.h): of a matrix whose columns are split, or, where each rank keeps a part of
// its own, of any.
std::int64_t passing_elements(const ModelShape& shape, const ParallelDims& dims, bool keeps_parts) {
  std::int64_t part = 0;
  for (const ParameterSpec& p : parameter_list(shape)) {
    const int split = p.tp_dim >= 0 && p.expert < 0 ? dims.tp : 1;
    if (keeps_parts || (p.tp_dim == 1 && dims.tp > 1)) part = std::max(part, (p.elements() + split - 1) / split);
  }
  return part;
}

// Which goes through a copy to ranks that only draw, and there where they keep parts
// (engine/tasks/rollout_ranks/weight_messages.h).
std::int64_t largest_parameter(const ModelShape& shape) {
  std::int64_t largest = 0;
  for (const ParameterSpec& p : parameter_list(shape)) largest = std::max(largest, p.elements());
  return largest;
}

// What passes by while the weights go to ranks that only draw: a parameter on the first rank, and a part of one.
std::int64_t sent_elements(const ModelShape& shape, const ParallelDims& dims) {
  return largest_parameter(shape) + (holds_parts(dims) ? passing_elements(shape, dims, true) : 0);
}

// As RewardModel::load() makes it for texts of so many tokens, behind what stands before each of them.
std::int64_t judge_bytes(const ModelShape& shape, DType dtype, std::int64_t length) {
  Activations::Sizes sizes;
  sizes.shape = shape, sizes.dtype = dtype, sizes.training = false;
  sizes.tokens_max = sizes.rows_max = std::max(length + shape.virtual_tokens, judged_at_once);
  return shape.parameter_count() * dtype_bytes(dtype) + Activations::bytes_for(sizes);
}

// A training of all its weights (engine/tasks/rollouts/critic.h), whose checkpoints are not staged.
Result<std::int64_t> critic_bytes(const AlignSettings& settings, const ModelShape& shape, const WeightsHere& here) {
  TrainingStageSettings critic(settings, settings);
  critic.adapter = {}, critic.checkpoint.asynchronous = false;
  critic.checkpoint.local_every_steps = critic.checkpoint.snapshot_every = 0;
  TrainingOutline o;
  LH_CHECK(take_settings(critic, here.dims, o));
  o.shape = with_scalar_head(shape), o.sequence_length = settings.sequence_length, o.padding = true;
  LH_TRY(const MemoryPlan plan, plan_training_memory(o, here.at));
  return plan.bytes.total() - plan.bytes[MemoryCategory::process];
}

}  // namespace

Result<std::int64_t> plan_answer_memory(const AlignSettings& settings, const ModelShape& shape, DType dtype,
                                        const WeightsHere& here, const ModelsBeside& beside) {
  const std::int64_t length = settings.sequence_length + 1;
  const std::int64_t before = shape.virtual_tokens;  // which sequence_length counts
  const bool takes = here.draws_as.has_value();
  const ParallelDims drawing =
      takes ? drawing_ranks_dims(settings.rollout, shape) : drawing_dims(settings.rollout, shape, here.dims);
  const int rank = takes ? *here.draws_as : rank_of_replica(here.dims, here.at);
  const bool in_parts = drawing.tp * drawing.pp > 1;
  const auto place_of = [&](const ModelShape& of) { return drawing_place(drawing, of, rank, {}); };
  const DrawnPart part = part_here(shape, place_of(shape));
  InferenceMemory drawn = plan_part(
      part, dtype, RolloutModel::load_for(settings.rollout.slots, length - before, before, settings.rollout.guesses()),
      drawing);
  const auto gathered = [&](std::int64_t passing) {
    return (part.elements + passing) * dtype_bytes(dtype) + weights_always_copied(part.shape, dtype);
  };
  if (takes)
    drawn.weights = gathered(in_parts ? largest_parameter(shape) : 0);
  else if (!draws_with_its_own(here.dims, drawing))
    drawn.weights = gathered(passing_elements(shape, here.dims, in_parts));
  else if (!settings.adapter.on())
    drawn.weights = weights_always_copied(part.shape, dtype);
  std::int64_t bytes = drawn.total() + (here.sends ? sent_elements(shape, here.dims) * dtype_bytes(dtype) : 0);
  if (!beside.reference.empty()) {
    LH_TRY(const HfConfig config, load_model_config(beside.reference));
    const DrawnPart of = part_here(config.shape, place_of(config.shape));
    bytes += plan_part(of, dtype, scoring_load(length), drawing).total();
  }
  if (!beside.judge.empty()) {
    LH_TRY(const HfConfig config, load_any_model_config(beside.judge));
    bytes += judge_bytes(config.shape, dtype, length - before);
  }
  if (!beside.critic.empty()) {
    LH_TRY(const HfConfig config, load_any_model_config(beside.critic));
    LH_TRY(const std::int64_t trained, critic_bytes(settings, config.shape, here));
    bytes += trained;
  }
  return bytes;
}

Status check_drawing_memory(std::int64_t bytes, const Device& device) {
  const auto text = [](std::int64_t of) { return human_bytes(static_cast<double>(of)); };
  const std::int64_t free = device.free_bytes();
  if (bytes + gpu_allowance <= free) return {};
  return make_error(
      ErrorCode::unavailable,
      format("too little memory on {}: a rank that only draws needs {}, and {} are free (weights, caches and scratch "
             "memory, and the models that compare and judge, {}; {} for the driver, libraries and single operations)",
             device.name(), text(bytes + gpu_allowance), text(free), text(bytes), text(gpu_allowance)),
      "use fewer rollout.slots, a shorter sequence_length, or a larger GPU; if another process holds a part "
      "(nvidia-smi), end it");
}

}  // namespace longhaul
