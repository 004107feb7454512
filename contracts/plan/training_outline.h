// Room contracts/plan
// What a training will hold in memory and send between ranks, computed from shapes and settings alone.
// training_outline.h is the input; memory_plan.h and communication_plan.h are functions of it.
// layout_check.h says whether a model divides as asked; shrunken_layout.h what fewer nodes can continue with.
// It knows no job and no record: planner, tuner and engine ask the same functions.
//
// What decides how much memory a training takes and how much its ranks send to each other: shapes, the layout, and the
// settings that change either. memory_plan.h and communication_plan.h are functions of it and of a rank's place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contracts/layout/parallel_dims.h"
#include "contracts/model/model_shape.h"
#include "contracts/model/parameter_layout.h"
#include "contracts/pipeline/schedule.h"
#include "contracts/settings/training/moe.h"
#include "contracts/settings/training/pipeline.h"
#include "contracts/settings/training/recompute.h"
#include "contracts/settings/training/training.h"

namespace longhaul {

struct TrainingOutline {
  ModelShape shape;  // resolved
  ParallelDims dims;
  PipelineSettings pipeline;
  std::int64_t micro_batch_size = 1;     // sequences
  std::int64_t sequence_length = 0;      // tokens, of the longest phase
  std::vector<int> micro_batches = {1};  // of a rank in a step: every number that there may be, ascending
  bool bf16 = true;                      // compute type; masters and gradients are f32
  bool gpu = false;                      // ranks compute on a GPU each, whose memory holds what lies_on_device() says
  bool deterministic = true;
  int first_moment_bytes = 4, second_moment_bytes = 4;  // of a weight (optimizer.moments)
  bool moments_on_disk = false;                         // optimizer.offload = "node_local"
  Recompute recompute;
  AdapterShape adapter;  // trained in place of the weights
  bool dropout = false;
  bool low_precision = false;  // operands are rounded into memory of their own
  std::string cp_attention = "ring";
  MoeSettings moe;
  bool overlap_gradients = true, overlap_weights = true, overlap_pipeline = true;
  bool overlap_tensor = true, overlap_experts = true;
  // How sums over a tp group are cut beside computation (engine/parallel/tensor/row_sum.h).
  std::int64_t rows_min = 128;
  int pieces_max = 4;
  std::int64_t rope_positions = 0;  // 0: sequence_length
  // What batches carry beside ids, targets and weights: places that begin anew with a document, and where it begins.
  bool positions = false, first_key = false;
  bool preference_pairs = false;  // DPO instead of cross-entropy
  bool padding = false;           // samples are padded to the longest of a micro-batch, and batches say which tokens
  // Bytes that a rank on a GPU takes there to draw answers and to have them judged, as its engine knows them
  // (engine/tasks/stages/answer_memory.h); 0: none, or on processors, where they are not planned.
  std::int64_t answers = 0;
  // Checkpoints are staged in memory, of a rank at most so many bytes (0: any number); copies on the nodes.
  bool staged_checkpoints = false;
  std::int64_t staging_limit = 0;
  bool local_copies = false;
  bool memory_snapshot = false;  // a copy of the state in memory, for in-process restarts
  // The library of matrix products compiles one for each case that it meets (engine/ops/linear/gemm.h: gemm_compiles).
  // It depends on the processor: who does not know that plans for the larger of both.
  bool compiled_products = true;
  // The engine computes products itself (engine/ops/linear/gemm.h: gemm_is_packed), which takes up to 8 MB of scratch
  // memory.
  bool packed_products = false;

  // Whose parameters are trained: the model's, or its adapter's.
  ModelShape trained_shape() const;
  int moment_bytes() const { return first_moment_bytes + second_moment_bytes; }
  void set_moments(const OptimizerSettings& settings);
  std::int64_t width() const { return bf16 ? 2 : 4; }
  // Of a micro-batch on one rank; sequences that cp does not divide are padded.
  std::int64_t tokens() const;
  // Those of which a rank holds the residual (sequence parallelism).
  std::int64_t rows() const { return dims.sp ? tokens() / dims.tp : tokens(); }
  int micro_batches_max() const { return micro_batches.back(); }
};

// Takes what the settings of every training call by the same names: all but its model, its samples and their length.
template <class Settings>
Status take_settings(const Settings& settings, const ParallelDims& dims, TrainingOutline& o) {
  o.dims = dims, o.pipeline = settings.pipeline, o.moe = settings.moe;
  o.micro_batch_size = settings.micro_batch_size;
  o.micro_batches.clear();
  for (const std::int64_t batch : batch_sizes(settings.batch_rampup, settings.global_batch_size))
    o.micro_batches.push_back(static_cast<int>(batch / settings.micro_batch_size / dims.dp()));
  o.gpu = settings.device == "gpu";
  o.bf16 = settings.precision == "bf16", o.deterministic = settings.deterministic;
  o.set_moments(settings.optimizer);
  o.adapter = settings.adapter;
  LH_TRY(o.recompute, recompute_from(settings.recompute));
  o.low_precision = settings.low_precision.on();
  o.dropout = settings.dropout > 0, o.cp_attention = settings.cp_attention;
  o.overlap_gradients = settings.overlap.gradients, o.overlap_weights = settings.overlap.weights;
  o.overlap_pipeline = settings.overlap.pipeline;
  o.overlap_tensor = settings.overlap.tensor, o.overlap_experts = settings.overlap.experts;
  o.staged_checkpoints = settings.checkpoint.asynchronous, o.staging_limit = settings.checkpoint.staging_limit.value;
  o.local_copies = settings.checkpoint.local_every_steps > 0;
  o.memory_snapshot = settings.checkpoint.in_process && settings.checkpoint.snapshot_every > 0;
  return {};
}

// Of a training that makes its own model. A vocabulary that is not known yet counts as empty.
Result<TrainingOutline> outline_of(const PretrainSettings& settings, const ParallelDims& dims);

// The outline on one rank. Errors (invalid_input) as resolve_stages and schedule_settings have them.
struct RankOutline {
  RankCoordinates at;
  ParameterLayout layout;                          // of what is trained
  std::vector<LayerRange> chunks;                  // layers of each of the rank's pipeline stages
  std::vector<std::vector<ScheduleOp>> schedules;  // one for each of micro_batches
  bool split_backward = false;                     // input and weight backward run apart

  bool is_first(int chunk) const { return at.pp == 0 && chunk == 0; }
  bool is_last(int chunk) const {
    const ParallelDims& dims = layout.place().dims;
    return at.pp + 1 == dims.pp && chunk + 1 == dims.vp;
  }
  // Micro-batches of a chunk that are alive at once, in the schedule that has most.
  int slots(int chunk) const;
};
Result<RankOutline> rank_outline(const TrainingOutline& outline, const RankCoordinates& at);

}  // namespace longhaul
