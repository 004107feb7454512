#include "contracts/settings/training/training.h"

#include <algorithm>
#include <cmath>

#include "base/text/text.h"
#include "contracts/settings/training/compute_device.h"

namespace longhaul {

const FieldTable<OptimizerSettings>& optimizer_fields() {
  using O = OptimizerSettings;
  static const auto table =
      FieldTable<O>()
          .field("lr", &O::lr, {.help = "highest learning rate", .min = 0})
          .field("lr_min_ratio", &O::lr_min_ratio,
                 {.help = "smallest learning rate of the decay, as a share of lr", .min = 0, .max = 1})
          .field("warmup_steps", &O::warmup_steps, {.unit = "steps", .help = "linear warm-up", .min = 0, .max = 1e12})
          .field("lr_start_ratio", &O::lr_start_ratio,
                 {.help = "learning rate from which the warm-up rises, as a share of lr", .min = 0, .max = 1})
          .field("lr_schedule", &O::lr_schedule,
                 {.help = "shape of the decay after the warm-up; wsd holds lr and decays at the end only",
                  .choices = {"cosine", "linear", "inverse_sqrt", "wsd", "constant"}})
          .field("lr_decay_steps", &O::lr_decay_steps,
                 {.unit = "steps",
                  .help = "wsd: length of the decay at the end; 0 takes a tenth of the steps",
                  .min = 0,
                  .max = 1e12})
          .field("lr_decay_shape", &O::lr_decay_shape,
                 {.help = "wsd: shape of the decay at the end",
                  .choices = {"linear", "cosine", "one_minus_sqrt", "exponential"}})
          .field("rewarm_after", &O::rewarm_after,
                 {.unit = "steps",
                  .help = "continued pretraining: after this step the schedule begins again, over the steps that are "
                          "left; 0 never",
                  .min = 0,
                  .max = 1e12})
          .field("rewarm_steps", &O::rewarm_steps,
                 {.unit = "steps", .help = "warm-up of the schedule that begins again", .min = 0, .max = 1e12})
          .field("beta1", &O::beta1, {.help = "AdamW: decay of the first moment", .min = 0, .max = 1})
          .field("beta2", &O::beta2, {.help = "AdamW: decay of the second moment", .min = 0, .max = 1})
          .field("eps", &O::eps, {.help = "AdamW: added to the root of the second moment", .min = 0})
          .field("weight_decay", &O::weight_decay, {.help = "AdamW: decoupled decay", .min = 0})
          .field(
              "no_decay", &O::no_decay,
              {.help = "weights without decay: \"norms\", \"biases\", \"embeddings\", or names in which * stands for "
                       "anything"})
          .field("clip_grad", &O::clip_grad,
                 {.help = "largest global L2 norm of the gradient; 0 does not clip", .min = 0})
          .field(
              "moments", &O::moments,
              {.help = "what AdamW's two moments are kept in: 8, 4 or (mixed: the first in bf16, the second in f32) 6 "
                       "bytes per weight",
               .choices = {"f32", "bf16", "mixed"}})
          .field("rounding", &O::rounding,
                 {.help = "of bf16 moments: stochastic keeps changes that are too small for nearest, in the mean",
                  .choices = {"nearest", "stochastic"}})
          .field(
              "offload", &O::offload,
              {.help = "where the moments lie while the optimizer does not work: host is the memory of the host (of an "
                       "engine that computes there: where they are anyway); node_local a file of each rank on the "
                       "disk of its node, in offload_dir",
               .choices = {"none", "host", "node_local"},
               .speed_only = true})
          .field("offload_dir", &O::offload_dir,
                 {.help = "folder on every node for offload = \"node_local\", for example /local/scratch",
                  .speed_only = true});
  return table;
}

Status check_blend(const std::vector<std::string>& names, const std::vector<double>& weights) {
  for (auto name = names.begin(); name != names.end(); ++name)
    if (std::find(names.begin(), name, *name) != name)
      return make_error(ErrorCode::invalid_input, format("blend names {} twice", *name));
  if (weights.empty()) return {};
  if (weights.size() != names.size())
    return make_error(ErrorCode::invalid_input,
                      format("{} blend_weights for {} names in blend", weights.size(), names.size()),
                      "one for each, or none: then their sizes decide");
  for (const double weight : weights)
    if (!(weight > 0) || !std::isfinite(weight))
      return make_error(ErrorCode::invalid_input, format("blend_weights has {:g}, which is not positive", weight),
                        "leave out what is not to be read");
  return {};
}

Status check_lr_schedule(const OptimizerSettings& settings, std::int64_t steps) {
  const OptimizerSettings& s = settings;
  if (s.lr_decay_steps > 0 && s.lr_schedule != "wsd")
    return make_error(ErrorCode::invalid_input,
                      format("optimizer.lr_decay_steps = {} goes with lr_schedule = \"wsd\", not with \"{}\"",
                             s.lr_decay_steps, s.lr_schedule),
                      "leave lr_decay_steps out; the other schedules decay from the warm-up to the last step");
  if (s.rewarm_steps > 0 && s.rewarm_after == 0)
    return make_error(ErrorCode::invalid_input,
                      format("optimizer.rewarm_steps = {} without rewarm_after", s.rewarm_steps),
                      "rewarm_after names the step after which the schedule begins again");
  if (steps == 0) return {};
  if (s.rewarm_after >= steps)
    return make_error(ErrorCode::invalid_input,
                      format("optimizer.rewarm_after = {} leaves nothing of steps = {}", s.rewarm_after, steps),
                      "steps counts from the very first step, also of a training that goes on");
  // Each run of the schedule: its steps, its warm-up.
  const auto fits = [&](const char* steps_key, std::int64_t length, const char* warmup_key, std::int64_t warmup) {
    if (warmup + s.lr_decay_steps <= length) return Status();
    return Status(
        make_error(ErrorCode::invalid_input,
                   format("optimizer.{} = {} and optimizer.lr_decay_steps = {} together are longer than {} = {}",
                          warmup_key, warmup, s.lr_decay_steps, steps_key, length),
                   "shorten one of them"));
  };
  if (s.lr_decay_steps == 0) return {};
  if (s.rewarm_after == 0) return fits("steps", steps, "warmup_steps", s.warmup_steps);
  LH_CHECK(fits("rewarm_after", s.rewarm_after, "warmup_steps", s.warmup_steps));
  return fits("steps - rewarm_after", steps - s.rewarm_after, "rewarm_steps", s.rewarm_steps);
}

Status check_moments(const OptimizerSettings& settings) {
  if (settings.rounding == "stochastic" && settings.moments == "f32")
    return make_error(ErrorCode::invalid_input,
                      "optimizer.rounding = \"stochastic\" with moments = \"f32\": nothing is rounded",
                      "set optimizer.moments = \"bf16\" or \"mixed\", or leave rounding out");
  const bool node_local = settings.offload == "node_local";
  if (node_local && settings.offload_dir.empty())
    return make_error(ErrorCode::invalid_input, "optimizer.offload = \"node_local\" without offload_dir",
                      "name a folder that is there on every node");
  if (!node_local && !settings.offload_dir.empty())
    return make_error(
        ErrorCode::invalid_input,
        format("optimizer.offload_dir goes with offload = \"node_local\", not with \"{}\"", settings.offload),
        "leave offload_dir out");
  return {};
}

Result<PhasePlan> phases_of(const PretrainSettings& settings, bool own_model) {
  PhaseDefaults defaults;
  defaults.sequence_length = settings.sequence_length;
  defaults.max_position_embeddings = own_model ? settings.model.max_position_embeddings : 0;
  defaults.lr = settings.optimizer.lr;
  defaults.global_batch_size = settings.global_batch_size;
  defaults.rampup = settings.batch_rampup;
  defaults.blend = settings.blend.empty() ? std::vector<std::string>{"tokens"} : settings.blend;
  defaults.blend_weights = settings.blend_weights;
  // Whether each is an input is known where inputs are read.
  defaults.inputs = defaults.blend;
  for (const TrainingPhase& phase : settings.phases)
    for (const std::string& name : phase.blend)
      if (std::ranges::find(defaults.inputs, name) == defaults.inputs.end()) defaults.inputs.push_back(name);
  return plan_phases(settings.phases, defaults);
}

Result<Value> phase_alone(const Value& settings, const std::string& phase) {
  if (!settings.find("phase")) return settings;
  LH_TRY(const PretrainSettings pretrain, pretrain_fields().parse(settings, ""));
  LH_TRY(const PhasePlan plan, phases_of(pretrain, false));
  const PlannedPhase* chosen = nullptr;
  std::vector<std::string> names;
  for (const PlannedPhase& one : plan.phases) {
    names.push_back(one.name);
    const auto size = [](const PlannedPhase& of) { return std::pair(of.sequence_length, of.steps()); };
    if (phase.empty() ? !chosen || size(one) > size(*chosen) : one.name == phase) chosen = &one;
  }
  if (!chosen)
    return make_error(ErrorCode::not_found, "there is no phase '" + phase + "'", "phases: " + join(names, ", "));
  Value alone = settings;
  alone.erase("phase");
  alone.set("sequence_length", static_cast<long long>(chosen->sequence_length));
  alone.set("steps", static_cast<long long>(chosen->steps()));
  alone.set("blend", Value(ValueArray(chosen->blend.begin(), chosen->blend.end())));
  alone.set("blend_weights", Value(ValueArray(chosen->blend_weights.begin(), chosen->blend_weights.end())));
  if (Value* optimizer = alone.find("optimizer"); optimizer && optimizer->is_table())
    optimizer->set("lr", std::max(chosen->lr_begin, chosen->lr_end));
  return alone;
}

Status check_pretraining(const PretrainSettings& settings, bool own_model) {
  const auto refuse = [](std::string what, std::string hint) {
    return make_error(ErrorCode::invalid_input, std::move(what), std::move(hint));
  };
  LH_CHECK(check_batch_rampup(settings.batch_rampup, settings.global_batch_size, 1));
  if (settings.reset_positions && !settings.document_mask)
    return refuse("reset_positions without document_mask",
                  "tokens of two documents would have the same place in one attention: set document_mask = true");
  if (settings.on_spike.action == "rollback" && settings.blend_policy == "exhaust")
    return refuse("on_spike.action = \"rollback\" with blend_policy = \"exhaust\"",
                  "data that is left out has to be replaced, which exhaust forbids: use skip, or repeat");
  if (settings.phases.empty()) return {};
  if (settings.steps > 0)
    return refuse(format("steps = {} beside phases", settings.steps), "each phase says how long it lasts");
  if (settings.optimizer.rewarm_after > 0)
    return refuse("optimizer.rewarm_after beside phases", "a phase with an lr of its own begins again");
  LH_TRY([[maybe_unused]] const PhasePlan plan, phases_of(settings, own_model));
  return {};
}

std::int64_t configured_steps(const Value& settings) {
  if (!settings.find("phase")) return settings.get_integer("steps");
  const auto pretrain = pretrain_fields().parse(settings, "");
  if (!pretrain.ok() || !check_pretraining(*pretrain, false).ok()) return 0;
  return phases_of(*pretrain, false)->steps;
}

const FieldTable<CorruptionSettings>& corruption_fields() {
  using C = CorruptionSettings;
  static const auto table =
      FieldTable<C>()
          .field(
              "check", &C::check,
              {.help = "what is looked at: contributions to sums of gradients on their way between ranks; replay does "
                       "so, and lets another rank compute a micro-batch again",
               .choices = {"off", "contributions", "replay"},
               .speed_only = true})
          .field("replay_every", &C::replay_every,
                 {.unit = "steps", .help = "with check = \"replay\", how often", .min = 1, .speed_only = true});
  return table;
}

const FieldTable<OverlapSettings>& overlap_fields() {
  using O = OverlapSettings;
  static const auto table =
      FieldTable<O>()
          .field("gradients", &O::gradients,
                 {.help = "sum gradients over the data-parallel ranks while the backward pass goes on",
                  .speed_only = true})
          .field("weights", &O::weights,
                 {.help = "with ZeRO, gather weights while others are in use", .speed_only = true})
          .field("context", &O::context,
                 {.help = "with cp_attention = \"ring\", pass keys and values on while they are in use",
                  .speed_only = true})
          .field("pipeline", &O::pipeline,
                 {.help = "pass activations and their gradients between pipeline stages beside computation",
                  .speed_only = true})
          .field("tensor", &O::tensor,
                 {.help = "with tp, gather and sum rows while others are computed", .speed_only = true})
          .field("experts", &O::experts,
                 {.help = "with ep or etp, pass tokens to experts and back while others are computed",
                  .speed_only = true});
  return table;
}

const FieldTable<TraceSettings>& trace_fields() {
  using T = TraceSettings;
  static const auto table =
      FieldTable<T>()
          .field("first_step", &T::first_step, {.help = "step at which the trace begins", .min = 1, .speed_only = true})
          .field("steps", &T::steps,
                 {.unit = "steps",
                  .help = "write what every rank computes and sends in so many steps, as trace/rank-N.json of the "
                          "stage, for Perfetto; 0 never",
                  .min = 0,
                  .max = 1000,
                  .speed_only = true})
          .field("kernels", &T::kernels,
                 {.help =
                      "time every kernel of a GPU (CUPTI): how long ranks compute is then reported without NCCL's, and "
                      "the longest kernels every 100 steps",
                  .speed_only = true});
  return table;
}

const FieldTable<SpikeSettings>& spike_fields() {
  using S = SpikeSettings;
  static const auto table =
      FieldTable<S>()
          .field(
              "action", &S::action,
              {.help = "of a step whose loss or gradient is no number or a spike: stop; skip its update; or roll back "
                       "to the last checkpoint and leave out the data since",
               .choices = {"stop", "skip", "rollback"}})
          .field("sigma", &S::sigma,
                 {.help = "a spike lies more than this many standard deviations above the mean of the window; 0: not "
                          "looked at",
                  .min = 0})
          .field("ratio", &S::ratio,
                 {.help = "a spike is more than this many times the mean of the window; 0: not looked at", .min = 0})
          .field("window", &S::window,
                 {.unit = "steps",
                  .help = "how many steps before are compared with; half of them must have been",
                  .min = 2,
                  .max = 100000})
          .field("budget", &S::budget,
                 {.help = "so many skips or rollbacks in budget_steps are allowed; one more stops the training",
                  .min = 0,
                  .max = 1e6})
          .field("budget_steps", &S::budget_steps, {.unit = "steps", .help = "see budget", .min = 1, .max = 1e12});
  return table;
}

const FieldTable<CheckpointSettings>& checkpoint_fields() {
  using C = CheckpointSettings;
  static const auto table =
      FieldTable<C>()
          .field("every_steps", &C::every_steps,
                 {.unit = "steps",
                  .help = "save a checkpoint this often; 0 only at the end",
                  .min = 0,
                  .speed_only = true})
          .field("keep_last", &C::keep_last, {.help = "older checkpoints are removed", .min = 1, .speed_only = true})
          .field("keep_every", &C::keep_every,
                 {.unit = "steps",
                  .help = "checkpoints of every such step stay for good; 0 none",
                  .min = 0,
                  .max = 1e12,
                  .speed_only = true})
          .field("keep_best", &C::keep_best,
                 {.help = "as many of the smallest held-out loss stay (training loss where none is measured); 0 none",
                  .min = 0,
                  .max = 1e6,
                  .speed_only = true})
          .field(
              "asynchronous", &C::asynchronous,
              {.help = "the training goes on while a copy of it is written; no waits for the disk", .speed_only = true})
          .field("direct_io", &C::direct_io,
                 {.help = "write past the page cache, where the file system can: it costs the training less",
                  .speed_only = true})
          .field("staging_limit", &C::staging_limit,
                 {.help = "largest copy that a rank may hold for asynchronous; where its share is larger the training "
                          "waits for the disk; 0 no limit",
                  .min = 0,
                  .speed_only = true})
          .field(
              "local_every_steps", &C::local_every_steps,
              {.unit = "steps",
               .help = "keep a copy of the state on the nodes this often, each rank's also on its partner's; a restart "
                       "takes the newest good of these and of the checkpoints; needs local_dir; 0 never",
               .min = 0,
               .max = 1e12,
               .speed_only = true})
          .field("local_dir", &C::local_dir,
                 {.help = "folder on every node for those copies: /local/scratch, or in memory /dev/shm",
                  .speed_only = true})
          .field("in_process", &C::in_process,
                 {.help = "a fault that all ranks survive is got over without new processes, where the job's lead "
                          "orders it; no ends the ranks, which are then started again",
                  .speed_only = true})
          .field("snapshot_every", &C::snapshot_every,
                 {.unit = "steps",
                  .help = "for in_process each rank keeps a copy of its state in memory, at most this often and so "
                          "seldom that it costs a hundredth of the time; 0 never, then some faults need new processes",
                  .min = 0,
                  .max = 1e12,
                  .speed_only = true})
          .field("at_end", &C::at_end,
                 {.help = "save the last state, measure the held-out loss and publish the model; no is for "
                          "measurements of time, whose artifact has figures only and is not offered to other runs",
                  .speed_only = true});
  return table;
}

namespace {
const std::vector<std::string> precisions = {"bf16", "f32"};

FieldOptions milestone_options() {
  return {.unit = "steps",
          .help =
              "publish the model this often while the training goes on; other stages take it as \"@stage@STEP\" or "
              "\"@stage@every\"; needs `steps`; 0 never",
          .min = 0,
          .max = 1e12,
          .speed_only = true};
}
FieldOptions cp_attention_options() {
  return {.help =
              "with parallel.cp > 1: ring hides its messages behind the computation and needs least memory; gather has "
              "fewer messages; a2a deals heads instead, of which every rank of tp * cp needs one; a2a+ring is not "
              "there yet",
          .choices = {"ring", "gather", "a2a", "a2a+ring"},
          .speed_only = true};
}
FieldOptions tensorboard_options() {
  return {.help = "write the curves as TensorBoard event files, too, into the folder tensorboard of the stage",
          .speed_only = true};
}
FieldOptions dropout_options() {
  return {.help = "share of the embedding's and of the residual branches' outputs that is zeroed in training",
          .min = 0,
          .max = 0.95};
}
FieldOptions peak_options() {
  return {.unit = "TFLOP/s",
          .help = "what one rank can do at most in this precision, for the MFU in the metrics; 0: not known",
          .min = 0,
          .speed_only = true};
}
}  // namespace

const FieldTable<PretrainSettings>& pretrain_fields() {
  using P = PretrainSettings;
  static const auto table =
      FieldTable<P>()
          .group("model", &P::model, model_shape_fields(), "shape of the model")
          .group("moe", &P::moe, moe_fields(), "how experts are balanced, where the model has any")
          .group("optimizer", &P::optimizer, optimizer_fields(), "AdamW and the learning-rate schedule")
          .group("checkpoint", &P::checkpoint, checkpoint_fields(), "when to save")
          .group("pipeline", &P::pipeline, pipeline_fields(), "schedule and layers of the pipeline's stages (pp, vp)")
          .group("overlap", &P::overlap, overlap_fields(), "communication beside computation")
          .group("trace", &P::trace, trace_fields(), "what ranks did when")
          .group("recompute", &P::recompute, recompute_fields(), "memory for time")
          .group("low_precision", &P::low_precision, low_precision_fields(), "FP8, MX formats and their emulation")
          .field("sequence_length", &P::sequence_length,
                 {.unit = "tokens", .help = "length of one sequence", .min = 8, .max = 1e8})
          .field("micro_batch_size", &P::micro_batch_size,
                 {.unit = "sequences", .help = "sequences that one rank computes at once", .min = 1, .max = 1e6})
          .field("global_batch_size", &P::global_batch_size,
                 {.unit = "sequences", .help = "sequences per optimizer step over all ranks", .min = 1, .max = 1e9})
          .group("on_spike", &P::on_spike, spike_fields(), "what a loss that is no number, or a spike, leads to")
          .group("corruption", &P::corruption, corruption_fields(), "bits that change with nobody noticing")
          .group("batch_rampup", &P::batch_rampup, batch_rampup_fields(),
                 "smaller batches first: from start to global_batch_size")
          .field("steps", &P::steps,
                 {.unit = "steps", .help = "optimizer steps; 0 takes epochs", .min = 0, .max = 1e12})
          .field("epochs", &P::epochs, {.help = "passes over the data when steps = 0", .min = 0, .max = 1e6})
          .field("milestone_every", &P::milestone_every, milestone_options())
          .field("precision", &P::precision,
                 {.help = "type of the matrix products; masters and sums are f32", .choices = precisions})
          .field("device", &P::device, device_options())
          .field("attention_backend", &P::attention_backend, attention_backend_options())
          .field("communicator", &P::communicator, communicator_options())
          .field("seed", &P::seed, {.help = "of initial weights and data order", .min = 0})
          .field("eval_every_steps", &P::eval_every_steps,
                 {.unit = "steps", .help = "held-out loss this often; 0 only at the end", .min = 0, .speed_only = true})
          .field("deterministic", &P::deterministic, {.help = "gradients are summed in one fixed order"})
          .field("cp_attention", &P::cp_attention, cp_attention_options())
          .field("tensorboard", &P::tensorboard, tensorboard_options())
          .field("sampler", &P::sampler,
                 {.help = "order of the samples: a new permutation in every epoch, or Megatron-LM's own, bit for bit",
                  .choices = {"shuffled", "megatron"}})
          .field("blend", &P::blend,
                 {.help = "inputs that are read, for example [\"tokens\", \"code\"]; empty is `tokens` alone"})
          .field("blend_weights", &P::blend_weights,
                 {.help = "share of each in the samples, in any scale; empty is by their sizes", .min = 0})
          .field("blend_policy", &P::blend_policy,
                 {.help = "repeat reads an input again when it is used up; exhaust refuses to take a sample twice",
                  .choices = {"repeat", "exhaust"}})
          .named("phase", &P::phases, &TrainingPhase::name, training_phase_fields(),
                 "a part of the training, one after the other; they replace steps, epochs and the learning rate's "
                 "schedule")
          .field("document_mask", &P::document_mask,
                 {.help = "attention does not cross the end of a document, whose last token predicts nothing"})
          .field("reset_positions", &P::reset_positions,
                 {.help = "positions begin again with every document; needs document_mask"})
          .field("dropout", &P::dropout, dropout_options())
          .field("peak_tflops", &P::peak_tflops, peak_options());
  return table;
}

constexpr const char* ignored_keys_help =
    "keys of rows and messages that are not used; any other key that the row's form does not know is refused";

const FieldTable<SftSettings>& sft_fields() {
  using S = SftSettings;
  static const auto table =
      FieldTable<S>()
          .group("moe", &S::moe, moe_fields(), "how experts are balanced, where the model has any")
          .group("optimizer", &S::optimizer, optimizer_fields(), "AdamW and the learning-rate schedule")
          .group("checkpoint", &S::checkpoint, checkpoint_fields(), "when to save")
          .group("pipeline", &S::pipeline, pipeline_fields(), "schedule and layers of the pipeline's stages (pp, vp)")
          .group("overlap", &S::overlap, overlap_fields(), "communication beside computation")
          .group("on_spike", &S::on_spike, spike_fields(), "what a loss that is no number, or a spike, leads to")
          .group("corruption", &S::corruption, corruption_fields(), "bits that change with nobody noticing")
          .group("trace", &S::trace, trace_fields(), "what ranks did when")
          .group("recompute", &S::recompute, recompute_fields(), "memory for time")
          .group("low_precision", &S::low_precision, low_precision_fields(), "FP8, MX formats and their emulation")
          .field("sequence_length", &S::sequence_length,
                 {.unit = "tokens", .help = "longer examples are left out and counted", .min = 8, .max = 1e8})
          .field("micro_batch_size", &S::micro_batch_size,
                 {.unit = "examples", .help = "examples that one rank computes at once", .min = 1, .max = 1e6})
          .field("global_batch_size", &S::global_batch_size,
                 {.unit = "examples", .help = "examples per optimizer step over all ranks", .min = 1, .max = 1e9})
          .field("steps", &S::steps,
                 {.unit = "steps", .help = "optimizer steps; 0 takes epochs", .min = 0, .max = 1e12})
          .field("epochs", &S::epochs, {.help = "passes over the examples when steps = 0", .min = 0, .max = 1e6})
          .field("milestone_every", &S::milestone_every, milestone_options())
          .field("packing", &S::packing,
                 {.help = "several examples share a row, each for itself; the batch sizes count rows then"})
          .field("heldout_fraction", &S::heldout_fraction,
                 {.help = "share of the questions kept for the held-out loss when no heldout input is given",
                  .min = 0,
                  .max = 0.9})
          .field("ignore", &S::ignore, {.help = ignored_keys_help})
          .field("precision", &S::precision,
                 {.help = "type of the matrix products; masters and sums are f32", .choices = precisions})
          .field("device", &S::device, device_options())
          .field("attention_backend", &S::attention_backend, attention_backend_options())
          .field("communicator", &S::communicator, communicator_options())
          .field("seed", &S::seed, {.help = "of the data order", .min = 0})
          .field("cp_attention", &S::cp_attention, cp_attention_options())
          .field("tensorboard", &S::tensorboard, tensorboard_options())
          .field("dropout", &S::dropout, dropout_options())
          .field("peak_tflops", &S::peak_tflops, peak_options());
  return table;
}

const FieldTable<AlignSettings>& align_fields() {
  using A = AlignSettings;
  static const auto table =
      FieldTable<A>()
          .field("method", &A::method,
                 {.help = "preference loss; simpo and orpo need no reference model",
                  .choices = {"dpo", "robust", "ipo", "hinge", "simpo", "orpo"}})
          .field("beta", &A::beta,
                 {.help = "strength of the tie to the reference model; ipo: tau, simpo: the reward's scale, orpo: the "
                          "weight of the odds ratio",
                  .min = 0})
          .field("label_smoothing", &A::label_smoothing,
                 {.help = "dpo, robust, simpo: share of labels taken as wrong (with dpo: conservative DPO)",
                  .min = 0,
                  .max = 0.5})
          .field("divergence", &A::divergence,
                 {.help = "dpo, robust, ipo, hinge: what ties the policy to the reference",
                  .choices = {"reverse_kl", "forward_kl", "js", "alpha"}})
          .field("divergence_alpha", &A::divergence_alpha, {.help = "order of divergence = \"alpha\""})
          .field("reward_margin", &A::reward_margin,
                 {.help = "simpo: by how much the chosen reward is to be larger (gamma; TRL takes 0.5)", .min = 0})
          .field("sft_weight", &A::sft_weight,
                 {.help = "adds that share of the chosen answer's cross-entropy", .min = 0})
          .field("length_normalized", &A::length_normalized, {.help = "log-probabilities per token instead of summed"})
          .field("ignore", &A::ignore, {.help = ignored_keys_help})
          .field("shuffle", &A::shuffle,
                 {.help =
                      "another order in every epoch; false takes the pairs in the file's order, which keeps pairs that "
                      "belong together in one batch"})
          .group("optimizer", &A::optimizer, optimizer_fields(), "AdamW and the learning-rate schedule")
          .group("checkpoint", &A::checkpoint, checkpoint_fields(), "when to save")
          .group("on_spike", &A::on_spike, spike_fields(), "what a loss that is no number, or a spike, leads to")
          .group("corruption", &A::corruption, corruption_fields(), "bits that change with nobody noticing")
          .field("sequence_length", &A::sequence_length,
                 {.unit = "tokens", .help = "longer examples are left out and counted", .min = 8, .max = 1e8})
          .field("micro_batch_size", &A::micro_batch_size,
                 {.unit = "pairs", .help = "pairs that one rank computes at once", .min = 1, .max = 1e6})
          .field("global_batch_size", &A::global_batch_size,
                 {.unit = "pairs", .help = "pairs per optimizer step over all ranks", .min = 1, .max = 1e9})
          .field("steps", &A::steps,
                 {.unit = "steps", .help = "optimizer steps; 0 takes epochs", .min = 0, .max = 1e12})
          .field("epochs", &A::epochs, {.help = "passes over the pairs when steps = 0", .min = 0, .max = 1e6})
          .field("milestone_every", &A::milestone_every, milestone_options())
          .field("precision", &A::precision,
                 {.help = "type of the matrix products; masters and sums are f32", .choices = precisions})
          .field("device", &A::device, device_options())
          .field("attention_backend", &A::attention_backend, attention_backend_options())
          .field("communicator", &A::communicator, communicator_options())
          .field("seed", &A::seed, {.help = "of the data order", .min = 0})
          .field("tensorboard", &A::tensorboard, tensorboard_options())
          .field("peak_tflops", &A::peak_tflops, peak_options());
  return table;
}

}  // namespace longhaul
