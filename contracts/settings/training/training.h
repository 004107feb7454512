// Room contracts/settings/training
// The settings of the stages that train: pretrain, sft and align, with their groups.
// Start with training.h; its groups are moe.h, low_precision.h, recompute.h, pipeline.h, training_phases.h here, and
// those of contracts/settings/groups.
// feature_table.h is the one table of what this version's engine can do; its rows are the files *_features.cc.
// It knows nothing of jobs, memory plans or records, so that the same settings are checked everywhere alike.
//
// Settings of the stages that train: pretrain, sft, align. What they share stands once, in TrainingCommon,
// ContextChoice and ComputeChoices, with its defaults, fields and help.
#pragma once

#include "contracts/model/model_shape.h"
#include "contracts/schema/field_table.h"
#include "contracts/settings/groups/checkpoint.h"
#include "contracts/settings/groups/corruption.h"
#include "contracts/settings/groups/optimizer.h"
#include "contracts/settings/groups/overlap.h"
#include "contracts/settings/groups/spike.h"
#include "contracts/settings/groups/trace.h"
#include "contracts/settings/training/batch_rampup.h"
#include "contracts/settings/training/low_precision.h"
#include "contracts/settings/training/moe.h"
#include "contracts/settings/training/pipeline.h"
#include "contracts/settings/training/recompute.h"
#include "contracts/settings/training/training_phases.h"

namespace longhaul {

// What every training has. The members' defaults are those of pretrain; the others say theirs in a constructor.
struct TrainingCommon {
  AdapterShape adapter;  // of the model that the training starts from
  OptimizerSettings optimizer;
  CheckpointSettings checkpoint;
  SpikeSettings on_spike;
  CorruptionSettings corruption;
  std::int64_t sequence_length = 512;   // tokens
  std::int64_t micro_batch_size = 4;    // samples: sequences, examples or pairs
  std::int64_t global_batch_size = 32;  // samples
  std::int64_t steps = 0;               // 0: from epochs
  double epochs = 1;
  std::int64_t milestone_every = 0;  // contracts/records/milestone.h
  std::string precision = "bf16";
  std::string device = "auto";             // | cpu | gpu: contracts/settings/training/compute_device.h
  std::string attention_backend = "auto";  // | cudnn | own: of a GPU
  std::string communicator = "nccl";       // | staged: between ranks on GPUs
  std::int64_t seed = 1;
  bool tensorboard = false;
  double peak_tflops = 0;  // of a rank; 0: not known
};

// How ranks that share a sequence (cp) attend to each other's tokens.
struct ContextChoice {
  std::string cp_attention = "ring";  // | gather | a2a: engine/parallel/context/context_attention.h
};

// How the model is computed, over which ranks and in which formats: what pretrain and sft can choose, and align cannot.
struct ComputeChoices : ContextChoice {
  MoeSettings moe;
  PipelineSettings pipeline;
  OverlapSettings overlap;
  TraceSettings trace;
  RecomputeSettings recompute;
  LowPrecisionSettings low_precision;
  double dropout = 0;  // of residual branches and embedding
};

struct PretrainSettings : TrainingCommon, ComputeChoices {
  ModelShape model;
  BatchRampup batch_rampup;
  std::int64_t eval_every_steps = 0;  // 0: only at the end
  bool deterministic = true;
  std::string sampler =
      "shuffled";  // or "megatron": Megatron-LM's order of samples (engine/data/samples/megatron_index.h)
  std::vector<std::string> blend;       // names of inputs with token files; empty: "tokens" alone
  std::vector<double> blend_weights;    // one each; empty: by their sizes
  std::string blend_policy = "repeat";  // or "exhaust": no sample twice
  std::vector<TrainingPhase> phases;    // empty: one, as the keys above say
  bool document_mask = false;           // tokens see their own document only
  bool reset_positions = false;         // positions begin again with every document
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

struct SftSettings : TrainingCommon, ComputeChoices {
  bool packing = false;             // several examples in a row
  double heldout_fraction = 0.1;    // of the examples, by hash of the question; 0 if a heldout input is given
  std::vector<std::string> ignore;  // keys of rows that are not used (contracts/settings/stages/tuning_row_form.h)
  SftSettings() {
    global_batch_size = 16, epochs = 3;
    optimizer.lr = 3e-4, optimizer.weight_decay = 0.01;
  }
};
const FieldTable<SftSettings>& sft_fields();

// Answers that the model gives itself, of methods that learn from them: grpo, rloo, reinforce++, ppo.
struct RolloutSettings {
  std::int64_t group_size = 8;        // answers to a prompt
  std::int64_t minibatches = 1;       // batches of global_batch_size answers that are drawn together
  std::int64_t epochs = 1;            // updates with each of them
  std::int64_t max_new_tokens = 64;   // of an answer, the token that ends it included
  std::int64_t slots = 64;            // answers that are generated at the same time, on each rank
  std::int64_t tp = 1, pp = 1;        // ranks of a replica that draw together, each with a part of the model
  std::int64_t redraws = 0;           // of a group whose rewards are all equal
  bool ahead = false;                 // answers are drawn while the steps before learn
  std::int64_t threads = 0;           // with ahead: that generate; 0: as many as train
  std::int64_t ranks = 0;             // with ahead: the last of the stage, which draw and train nothing; 0: none
  std::string speculate = "none";     // | ngram: what guesses the next tokens of an answer
  std::int64_t draft_tokens = 8;      // that are guessed at most, at a time
  std::string advantage = "scaled";   // | centered: rewards of a group divided by their deviation, or not
  std::string ratio = "token";        // | sequence: what is clipped
  std::string average = "answer";     // | token | longest: what the loss is a mean over
  std::string surrogate = "clipped";  // | cispo: what is made of a ratio and an advantage
  double clip_low = 0.2, clip_high = 0.2;
  double dual_clip = 0;              // the bound of ratios of answers that were worse than expected; 0: none
  std::string overlong = "none";     // | shape | filter: what is made of answers near max_new_tokens, or cut there
  std::int64_t overlong_tokens = 0;  // of shape: so many tokens before max_new_tokens an answer begins to cost
  double overlong_penalty = 1;       // of shape: what it costs at max_new_tokens
  double importance_cap = 0;         // of a token's probability now by that when it was drawn; 0: not weighed
  std::int64_t turns = 1;            // of the model in a conversation, at most; 1: an answer is one turn
  // Who speaks between two turns, one of them where there are several: a program and its arguments, or an address.
  std::vector<std::string> environment;
  std::string environment_url;
  std::string environment_role = "user";                         // | tool: as whom
  std::int64_t environment_deadline_s = 60;                      // for all conversations of a turn on a rank
  std::int64_t updates() const { return minibatches * epochs; }  // steps that learn from the same answers
  bool in_parts() const { return tp * pp > 1; }                  // no rank has the whole model that draws
  // Tokens that are guessed behind the last one of an answer, at most.
  std::int64_t guesses() const { return speculate == "none" ? 0 : draft_tokens; }
  bool operator==(const RolloutSettings&) const = default;
};

// What ppo has beside: a critic, and rewards of tokens. Formulas: engine/align/critic.
struct PpoSettings {
  std::string critic = "policy";  // | reward: the weights that it begins with
  double critic_lr = 5e-5;        // the peak; the schedule and all else is the optimizer's
  double value_clip = 0.2;        // 0: none
  double gamma = 1, lambda = 0.95;
  bool whiten = true;
  std::string kl = "k1";       // | k2 | k3
  double kl_target = 0;        // 0: beta stays as it is
  double kl_horizon = 10'000;  // answers
  bool operator==(const PpoSettings&) const = default;
};

// One of the numbers that a reward model says of an answer: helpfulness, say.
struct RewardAttribute {
  std::string name;         // also the key of rows
  double weight = 1;        // of it in the one reward of an answer
  double min = 0, max = 4;  // of the values of rows
  bool operator==(const RewardAttribute&) const = default;
};

// What a reward model's numbers mean; it goes with the model (contracts/settings/stages/reward_form.h).
struct RewardForm {
  std::string method = "bradley-terry";     // | attributes | process
  std::vector<RewardAttribute> attributes;  // of attributes: one number each, in this order
  std::string step_separator = "\n\n";      // of process: between the steps of an answer
  std::string step_aggregate = "min";       // | product | last: what an answer is worth by its steps
  bool operator==(const RewardForm&) const = default;
};
const FieldTable<RewardForm>& reward_form_fields();

// A reward model from pairs of answers, or from answers with values or labels of their own: engine/align/scores.
struct RewardModelSettings : TrainingCommon, ContextChoice, RewardForm {
  double center_weight = 0;  // of the mean of (chosen + rejected)^2
  std::vector<std::string> ignore;
  bool shuffle = true;
  RewardModelSettings() {
    global_batch_size = 16;
    optimizer.lr = 5e-5, optimizer.weight_decay = 0.0;
  }
};
const FieldTable<RewardModelSettings>& reward_model_fields();

// What an answer is worth: engine/align/reward.h, engine/tasks/rewards.
struct RewardSettings {
  std::string kind = "exact";        // | number | regex | json | command | http | tests | model
  std::string pattern;               // of regex
  std::string schema;                // of json: the text of a JSON schema; "": any JSON will do
  std::vector<std::string> command;  // program and arguments
  std::string url;                   // of http
  std::string python = "python3";    // of tests: the interpreter
  std::int64_t deadline_s = 60;      // of command and http, for all answers of a step on a rank
  bool operator==(const RewardSettings&) const = default;
};

// The keys of a reward, for `align` and `sample`: `kinds` are those that judge by a model, `judged` says what they do.
FieldTable<RewardSettings> reward_fields(const std::string& judged, const std::vector<std::string>& kinds);

// What goes with which method: contracts/settings/stages/alignment.h.
struct AlignSettings : TrainingCommon, ContextChoice {
  std::string method = "dpo";
  RolloutSettings rollout;
  RewardSettings reward;
  PpoSettings ppo;
  double beta = 0.1;
  double label_smoothing = 0;             // the share of pairs taken to be labelled the wrong way round
  std::string divergence = "reverse_kl";  // | forward_kl | js | alpha: engine/align/implicit_reward.h
  double divergence_alpha = 0.5;
  double reward_margin = 0;                             // gamma of SimPO
  double sft_weight = 0;                                // adds that share of the chosen answer's cross-entropy
  bool length_normalized = false;                       // log-probabilities per token instead of summed
  double desirable_weight = 1, undesirable_weight = 1;  // of kto's answers
  std::vector<std::string> ignore;  // keys of rows that are not used (contracts/settings/stages/tuning_row_form.h)
  bool shuffle = true;              // false: pairs in the file's order, where neighbours may belong in one batch
  AlignSettings() {
    global_batch_size = 16;
    optimizer.lr = 5e-5, optimizer.weight_decay = 0.0;
  }
};
const FieldTable<AlignSettings>& align_fields();

}  // namespace longhaul
