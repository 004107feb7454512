#include "engine/tasks/stages/answer_memory.h"

#include <algorithm>

#include "contracts/plan/memory_plan.h"
#include "engine/infer/generate/rollout_model.h"
#include "engine/model/inference/inference_memory.h"
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

// As RewardModel::load() makes it.
std::int64_t judge_bytes(const ModelShape& shape, DType dtype, std::int64_t length) {
  Activations::Sizes sizes;
  sizes.shape = shape, sizes.dtype = dtype, sizes.training = false;
  sizes.tokens_max = sizes.rows_max = std::max(length, judged_at_once);
  return shape.parameter_count() * dtype_bytes(dtype) + Activations::bytes_for(sizes);
}

// A training of all its weights (engine/tasks/rollouts/critic.h), whose checkpoints are not staged.
Result<std::int64_t> critic_bytes(const AlignSettings& settings, const ModelShape& shape, const ParallelDims& dims) {
  TrainingStageSettings critic(settings, settings);
  critic.adapter = {}, critic.checkpoint.asynchronous = false;
  critic.checkpoint.local_every_steps = critic.checkpoint.snapshot_every = 0;
  TrainingOutline o;
  LH_CHECK(take_settings(critic, dims, o));
  o.shape = with_scalar_head(shape), o.sequence_length = settings.sequence_length, o.padding = true;
  LH_TRY(const MemoryPlan plan, plan_training_memory(o, RankCoordinates()));
  return plan.bytes.total() - plan.bytes[MemoryCategory::process];
}

}  // namespace

Result<std::int64_t> plan_answer_memory(const AlignSettings& settings, const ModelShape& shape, DType dtype,
                                        const ParallelDims& dims, const ModelsBeside& beside) {
  const std::int64_t length = settings.sequence_length + 1;
  InferenceMemory drawn = plan_inference_memory(shape, dtype, RolloutModel::load_for(settings.rollout.slots, length));
  if (!settings.adapter.on()) drawn.weights = 0;
  std::int64_t bytes = drawn.total();
  if (!beside.reference.empty()) {
    LH_TRY(const HfConfig config, load_model_config(beside.reference));
    bytes += plan_inference_memory(config.shape, dtype, scoring_load(length)).total();
  }
  if (!beside.judge.empty()) {
    LH_TRY(const HfConfig config, load_any_model_config(beside.judge));
    bytes += judge_bytes(config.shape, dtype, length);
  }
  if (!beside.critic.empty()) {
    LH_TRY(const HfConfig config, load_any_model_config(beside.critic));
    LH_TRY(const std::int64_t trained, critic_bytes(settings, config.shape, dims));
    bytes += trained;
  }
  return bytes;
}

}  // namespace longhaul
