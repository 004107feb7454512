// Room contracts/settings/training
// The settings of the stages that train: pretrain, sft and align, with their groups.
// Start with training.h; moe.h, low_precision.h, recompute.h, pipeline.h and training_phases.h are groups of it.
// feature_table.h is the one table of what this version's engine can do; its rows are the files *_features.cc.
// It knows nothing of jobs, memory plans or records, so that the same settings are checked everywhere alike.
//
// Settings of the stages that train: pretrain, sft, align. What they share is a group of its own.
#pragma once

#include "contracts/model/model_shape.h"
#include "contracts/schema/field_table.h"
#include "contracts/settings/training/batch_rampup.h"
#include "contracts/settings/training/low_precision.h"
#include "contracts/settings/training/moe.h"
#include "contracts/settings/training/pipeline.h"
#include "contracts/settings/training/recompute.h"
#include "contracts/settings/training/training_phases.h"

namespace longhaul {

// Optimizer and schedule. AdamW: Loshchilov & Hutter 2019, decoupled decay.
// What the schedules are: engine/train/optimizer/lr_schedule.h.
struct OptimizerSettings {
  double lr = 1e-3;
  double lr_min_ratio = 0.1;  // no decay goes below lr * ratio
  std::int64_t warmup_steps = 20;
  double lr_start_ratio = 0;                      // the warm-up begins at lr * ratio
  std::string lr_schedule = "cosine";             // cosine | linear | inverse_sqrt | wsd | constant
  std::int64_t lr_decay_steps = 0;                // wsd; 0: a tenth of the steps
  std::string lr_decay_shape = "one_minus_sqrt";  // wsd: linear | cosine | one_minus_sqrt | exponential
  std::int64_t rewarm_after = 0;                  // step after which the schedule begins again; 0: never
  std::int64_t rewarm_steps = 0;                  // its warm-up
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  std::vector<std::string> no_decay = {"norms", "biases"};  // kinds, or names with * (contracts/model/weight_decay.h)
  double clip_grad = 1.0;                                   // 0: no clipping
  std::string moments = "f32";                              // f32 | bf16 | mixed (first in bf16, second in f32)
  std::string rounding = "nearest";                         // of bf16 moments: nearest | stochastic
  std::string offload = "none";  // where moments lie between two updates: none | host | node_local
  std::string offload_dir;       // of node_local
};
const FieldTable<OptimizerSettings>& optimizer_fields();
// What the fields' own bounds cannot say of the schedule: keys that do not go together, or with the number of steps (0:
// not known yet). The error names them.
Status check_lr_schedule(const OptimizerSettings& settings, std::int64_t steps);
// The same of what the moments are kept in.
Status check_moments(const OptimizerSettings& settings);

// What happens when the loss or the gradient's norm of a step is no number, or far above what it was: the rule is in
// engine/train/step/spike_guard.h.
struct SpikeSettings {
  std::string action = "stop";  // stop | skip | rollback
  double sigma = 0;             // a spike is above mean + sigma * deviation of the window; 0: not looked at
  double ratio = 0;             // or above ratio * mean; 0: not looked at
  std::int64_t window = 128;    // steps whose update was made
  std::int64_t budget = 5;      // skips or rollbacks in
  std::int64_t budget_steps = 1000;
};
const FieldTable<SpikeSettings>& spike_fields();

struct CheckpointSettings {
  std::int64_t every_steps = 0;  // 0: only at the end
  int keep_last = 2;
  std::int64_t keep_every = 0;  // steps; 0: none for that
  int keep_best = 0;
  bool asynchronous = true;            // the training goes on while a checkpoint is written
  bool direct_io = true;               // past the page cache
  ByteCount staging_limit;             // of a rank's copy of its share; 0: as much as it needs
  std::int64_t local_every_steps = 0;  // copies on the nodes; 0: none
  std::string local_dir;
  bool in_process = true;           // faults that all ranks survive need no new processes
  std::int64_t snapshot_every = 1;  // steps between copies in memory for it; 0: none
  bool at_end = true;               // false, for measurements: no last checkpoint, held-out loss or model
};
const FieldTable<CheckpointSettings>& checkpoint_fields();

// Silent data corruption: bits that change with nobody noticing (docs/resiliency.md).
struct CorruptionSettings {
  std::string check = "contributions";  // off | contributions: to sums over ranks | replay: these, and what is computed
  std::int64_t replay_every = 1000;     // steps
};
const FieldTable<CorruptionSettings>& corruption_fields();

// What goes on between ranks while they compute. Results do not depend on it.
struct OverlapSettings {
  bool gradients = true;  // sums over the data-parallel ranks start while the backward pass goes on
  bool weights = true;    // ZeRO: weights are gathered while others are in use
  bool pipeline = true;   // messages between stages travel while others are computed
  bool context = true;    // cp_attention = "ring": the next keys come while those at hand are used
  bool tensor = true;     // tp: rows travel while others are computed
  bool experts = true;    // rows travel to experts and back while others are computed
};
const FieldTable<OverlapSettings>& overlap_fields();

// When every rank writes what it did at which time (engine/core/tensor/trace.h), and whether its GPU's kernels are
// timed.
struct TraceSettings {
  std::int64_t first_step = 3;
  std::int64_t steps = 0;  // 0: never
  bool kernels = false;
};
const FieldTable<TraceSettings>& trace_fields();

struct PretrainSettings {
  ModelShape model;
  MoeSettings moe;
  PipelineSettings pipeline;
  OverlapSettings overlap;
  TraceSettings trace;
  RecomputeSettings recompute;
  LowPrecisionSettings low_precision;
  OptimizerSettings optimizer;
  CheckpointSettings checkpoint;
  SpikeSettings on_spike;
  CorruptionSettings corruption;
  std::int64_t sequence_length = 512;
  std::int64_t micro_batch_size = 4;
  std::int64_t global_batch_size = 32;
  BatchRampup batch_rampup;
  std::int64_t steps = 0;  // 0: from epochs
  double epochs = 1;
  std::int64_t milestone_every = 0;  // contracts/records/milestone.h
  std::string precision = "bf16";
  std::string device = "auto";             // | cpu | gpu: contracts/settings/training/compute_device.h
  std::string attention_backend = "auto";  // | cudnn | own: of a GPU
  std::string communicator = "nccl";       // | staged: between ranks on GPUs
  std::int64_t seed = 1;
  std::int64_t eval_every_steps = 0;  // 0: only at the end
  bool deterministic = true;
  std::string cp_attention = "ring";  // | gather | a2a: engine/parallel/context/context_attention.h
  bool tensorboard = false;
  std::string sampler =
      "shuffled";  // or "megatron": Megatron-LM's order of samples (engine/data/samples/megatron_index.h)
  std::vector<std::string> blend;       // names of inputs with token files; empty: "tokens" alone
  std::vector<double> blend_weights;    // one each; empty: by their sizes
  std::string blend_policy = "repeat";  // or "exhaust": no sample twice
  std::vector<TrainingPhase> phases;    // empty: one, as the keys above say
  bool document_mask = false;           // tokens see their own document only
  bool reset_positions = false;         // positions begin again with every document
  double dropout = 0;                   // of residual branches and embedding
  double peak_tflops = 0;               // of a rank; 0: not known
};
const FieldTable<PretrainSettings>& pretrain_fields();
// Of settings with phases. `own_model`: it is made from settings.model, whose bounds hold.
Result<PhasePlan> phases_of(const PretrainSettings& settings, bool own_model);
// The same training as if one of its phases were all of it: its length, data and highest learning rate. `phase`: a
// name, or "" for the one with the longest sequences, of those the one that trains most. Unchanged where there are no
// phases. Errors as phases_of has them; not_found names the phases.
Result<Value> phase_alone(const Value& settings, const std::string& phase);
// What the fields' own bounds cannot say, and no other check here does; `own_model` as above.
Status check_pretraining(const PretrainSettings& settings, bool own_model);
// Steps that the settings of a training say there are: `steps`, or those of its phases; 0: they follow from the data.
std::int64_t configured_steps(const Value& settings);
// Of `blend` and `blend_weights`: each name once, one positive weight each or none at all.
Status check_blend(const std::vector<std::string>& names, const std::vector<double>& weights);

struct SftSettings {
  MoeSettings moe;
  PipelineSettings pipeline;
  OverlapSettings overlap;
  TraceSettings trace;
  RecomputeSettings recompute;
  LowPrecisionSettings low_precision;
  OptimizerSettings optimizer;
  CheckpointSettings checkpoint;
  SpikeSettings on_spike;
  CorruptionSettings corruption;
  std::int64_t sequence_length = 512;
  std::int64_t micro_batch_size = 4;
  std::int64_t global_batch_size = 16;
  std::int64_t steps = 0;
  double epochs = 3;
  std::int64_t milestone_every = 0;
  bool packing = false;             // several examples in a row
  double heldout_fraction = 0.1;    // of the examples, by hash of the question; 0 if a heldout input is given
  std::vector<std::string> ignore;  // keys of rows that are not used (contracts/settings/stages/tuning_row_form.h)
  std::string precision = "bf16";
  std::string device = "auto";             // | cpu | gpu: contracts/settings/training/compute_device.h
  std::string attention_backend = "auto";  // | cudnn | own: of a GPU
  std::string communicator = "nccl";       // | staged: between ranks on GPUs
  std::int64_t seed = 1;
  std::string cp_attention = "ring";  // as in pretraining
  bool tensorboard = false;
  double dropout = 0;
  double peak_tflops = 0;  // of a rank; 0: not known
  SftSettings() { optimizer.lr = 3e-4, optimizer.weight_decay = 0.01; }
};
const FieldTable<SftSettings>& sft_fields();

// What goes with which method: contracts/settings/stages/alignment.h.
struct AlignSettings {
  std::string method = "dpo";
  double beta = 0.1;
  double label_smoothing = 0;             // the share of pairs taken to be labelled the wrong way round
  std::string divergence = "reverse_kl";  // | forward_kl | js | alpha: engine/align/implicit_reward.h
  double divergence_alpha = 0.5;
  double reward_margin = 0;         // gamma of SimPO
  double sft_weight = 0;            // adds that share of the chosen answer's cross-entropy
  bool length_normalized = false;   // log-probabilities per token instead of summed
  std::vector<std::string> ignore;  // keys of rows that are not used (contracts/settings/stages/tuning_row_form.h)
  bool shuffle = true;              // false: pairs in the file's order, where neighbours may belong in one batch
  OptimizerSettings optimizer;
  CheckpointSettings checkpoint;
  SpikeSettings on_spike;
  CorruptionSettings corruption;
  std::int64_t sequence_length = 512;
  std::int64_t micro_batch_size = 4;    // pairs
  std::int64_t global_batch_size = 16;  // pairs
  std::int64_t steps = 0;
  double epochs = 1;
  std::int64_t milestone_every = 0;
  std::string precision = "bf16";
  std::string device = "auto";             // | cpu | gpu: contracts/settings/training/compute_device.h
  std::string attention_backend = "auto";  // | cudnn | own: of a GPU
  std::string communicator = "nccl";       // | staged: between ranks on GPUs
  std::int64_t seed = 1;
  bool tensorboard = false;
  double peak_tflops = 0;  // of a rank; 0: not known
  AlignSettings() { optimizer.lr = 5e-5, optimizer.weight_decay = 0.0; }
};
const FieldTable<AlignSettings>& align_fields();

}  // namespace longhaul
