#include "contracts/plan/training_outline.h"

#include <algorithm>

#include "contracts/model/adapter_list.h"

namespace longhaul {

std::int64_t TrainingOutline::tokens() const {
  if (dims.cp == 1) return micro_batch_size * sequence_length;
  const std::int64_t chunks = 2 * std::int64_t{dims.cp};  // engine/parallel/context/context_shard.h
  return micro_batch_size * ((sequence_length + chunks - 1) / chunks) * 2;
}

ModelShape TrainingOutline::trained_shape() const {
  ModelShape trained = shape;
  trained.adapter = adapter;
  return trained;
}

void TrainingOutline::set_moments(const OptimizerSettings& settings) {
  first_moment_bytes = settings.moments == "f32" ? 4 : 2;
  second_moment_bytes = settings.moments == "bf16" ? 2 : 4;
  moments_on_disk = settings.offload == "node_local";
}

Result<TrainingOutline> outline_of(const PretrainSettings& settings, const ParallelDims& dims) {
  TrainingOutline o;
  LH_TRY(o.shape, resolve_shape(settings.model));
  LH_CHECK(take_settings(settings, dims, o));
  o.sequence_length = settings.sequence_length;
  if (!settings.phases.empty()) {
    LH_TRY(const PhasePlan plan, phases_of(settings, true));
    o.sequence_length = 0;
    for (const PlannedPhase& phase : plan.phases)
      o.sequence_length = std::max(o.sequence_length, phase.sequence_length);
  }
  o.first_key = settings.document_mask, o.positions = settings.reset_positions;
  return o;
}

namespace {

std::vector<ScheduleOp> ops_of_chunk(const std::vector<ScheduleOp>& ops, int chunk) {
  std::vector<ScheduleOp> own;
  std::ranges::copy_if(ops, std::back_inserter(own), [&](const ScheduleOp& op) { return op.chunk == chunk; });
  return own;
}

}  // namespace

int RankOutline::slots(int chunk) const {
  int most = 0;
  for (const std::vector<ScheduleOp>& ops : schedules)
    if (const auto slots = schedule_slots(ops_of_chunk(ops, chunk)); slots.ok()) most = std::max(most, *slots);
  return most;
}

Result<RankOutline> rank_outline(const TrainingOutline& outline, const RankCoordinates& at) {
  const ParallelDims& dims = outline.dims;
  LH_TRY(const StageLayout stages, resolve_stages(static_cast<int>(outline.shape.num_hidden_layers), dims.pp, dims.vp,
                                                  outline.pipeline.stages()));
  LH_CHECK(adapted_matrices(outline.trained_shape()));
  RankOutline rank{at, ParameterLayout(outline.trained_shape(), {dims, at, stages}), {}, {}, false};
  for (int chunk = 0; chunk < dims.vp; ++chunk) rank.chunks.push_back(layers_of_chunk(stages, at.pp, chunk));
  for (const int count : outline.micro_batches) {
    LH_TRY(const PipelineScheduleSettings settings, schedule_settings(outline.pipeline, dims, count));
    LH_TRY(rank.schedules.emplace_back(), pipeline_schedule(settings, at.pp));
  }
  rank.split_backward = std::ranges::any_of(
      rank.schedules.back(), [](const ScheduleOp& op) { return op.kind == ScheduleOp::Kind::backward_weight; });
  return rank;
}

}  // namespace longhaul
