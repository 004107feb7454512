#include "contracts/settings/training/training.h"

#include <algorithm>
#include <cmath>

#include "base/text/text.h"
#include "contracts/settings/training/compute_device.h"

namespace longhaul {

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
  if (settings.adapter.on() && own_model)
    return refuse(format("adapter.kind = \"{}\" of a model that is made here", settings.adapter.kind),
                  "give inputs.model, which is adapted, or leave adapter out");
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

namespace {

// The words in which the help of a common field differs between the kinds.
struct TrainingNouns {
  const char* samples;          // what a batch has
  const char* data;             // what an epoch goes over
  const char* sequence_length;  // its whole help
  const char* seed;             // its whole help
};

FieldTable<TrainingCommon> common_fields(const TrainingNouns& noun) {
  using T = TrainingCommon;
  return FieldTable<T>()
      .group("adapter", &T::adapter, adapter_fields(), "numbers that are trained in place of the model's weights")
      .group("optimizer", &T::optimizer, optimizer_fields(), "AdamW and the learning-rate schedule")
      .group("checkpoint", &T::checkpoint, checkpoint_fields(), "when to save")
      .group("on_spike", &T::on_spike, spike_fields(), "what a loss that is no number, or a spike, leads to")
      .group("corruption", &T::corruption, corruption_fields(), "bits that change with nobody noticing")
      .field("sequence_length", &T::sequence_length,
             {.unit = "tokens", .help = noun.sequence_length, .min = 8, .max = 1e8})
      .field("micro_batch_size", &T::micro_batch_size,
             {.unit = noun.samples,
              .help = format("{} that one rank computes at once", noun.samples),
              .min = 1,
              .max = 1e6})
      .field("global_batch_size", &T::global_batch_size,
             {.unit = noun.samples,
              .help = format("{} per optimizer step over all ranks", noun.samples),
              .min = 1,
              .max = 1e9})
      .field("steps", &T::steps, {.unit = "steps", .help = "optimizer steps; 0 takes epochs", .min = 0, .max = 1e12})
      .field("epochs", &T::epochs,
             {.help = format("passes over the {} when steps = 0", noun.data), .min = 0, .max = 1e6})
      .field("milestone_every", &T::milestone_every,
             {.unit = "steps",
              .help =
                  "publish the model this often while the training goes on; other stages take it as \"@stage@STEP\" or "
                  "\"@stage@every\"; needs `steps`; 0 never",
              .min = 0,
              .max = 1e12,
              .speed_only = true})
      .field("precision", &T::precision,
             {.help = "type of the matrix products; masters and sums are f32", .choices = {"bf16", "f32"}})
      .field("device", &T::device, device_options())
      .field("attention_backend", &T::attention_backend, attention_backend_options())
      .field("communicator", &T::communicator, communicator_options())
      .field("seed", &T::seed, {.help = noun.seed, .min = 0})
      .field("tensorboard", &T::tensorboard,
             {.help = "write the curves as TensorBoard event files, too, into the folder tensorboard of the stage",
              .speed_only = true})
      .field("peak_tflops", &T::peak_tflops,
             {.unit = "TFLOP/s",
              .help = "what one rank can do at most in this precision, for the MFU in the metrics; 0: not known",
              .min = 0,
              .speed_only = true});
}

const FieldTable<ContextChoice>& context_fields() {
  using C = ContextChoice;
  static const auto table = FieldTable<C>().field(
      "cp_attention", &C::cp_attention,
      {.help = "with parallel.cp > 1: ring hides its messages behind the computation and needs least memory; "
               "gather has fewer messages; a2a distributes heads instead, of which every rank of tp * cp "
               "needs one; a2a+ring is not there yet",
       .choices = {"ring", "gather", "a2a", "a2a+ring"},
       .speed_only = true});
  return table;
}

const FieldTable<ComputeChoices>& compute_fields() {
  using C = ComputeChoices;
  static const auto table =
      FieldTable<C>()
          .group("moe", &C::moe, moe_fields(), "how experts are balanced, where the model has any")
          .group("pipeline", &C::pipeline, pipeline_fields(), "schedule and layers of the pipeline's stages (pp, vp)")
          .group("overlap", &C::overlap, overlap_fields(), "communication beside computation")
          .group("trace", &C::trace, trace_fields(), "what ranks did when")
          .group("recompute", &C::recompute, recompute_fields(), "memory for time")
          .group("low_precision", &C::low_precision, low_precision_fields(), "FP8, MX formats and their emulation")
          .include(context_fields())
          .field("dropout", &C::dropout,
                 {.help = "share of the embedding's and of the residual branches' outputs that is zeroed in training",
                  .min = 0,
                  .max = 0.95});
  return table;
}

constexpr const char* ignored_keys_help =
    "keys of rows and messages that are not used; any other key that the row's form does not know is refused";
constexpr const char* left_out_if_longer =
    "longer examples are left out and counted; where it is not written, at most what the model takes";

}  // namespace

const FieldTable<PretrainSettings>& pretrain_fields() {
  using P = PretrainSettings;
  static const auto table =
      FieldTable<P>()
          .group("model", &P::model, model_shape_fields(), "shape of the model")
          .include(common_fields({"sequences", "data", "length of one sequence", "of initial weights and data order"}))
          .include(compute_fields())
          .group("batch_rampup", &P::batch_rampup, batch_rampup_fields(),
                 "smaller batches first: from start to global_batch_size")
          .field("eval_every_steps", &P::eval_every_steps,
                 {.unit = "steps", .help = "held-out loss this often; 0 only at the end", .min = 0, .speed_only = true})
          .field("deterministic", &P::deterministic, {.help = "gradients are summed in one fixed order"})
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
                 {.help = "positions begin again with every document; needs document_mask"});
  return table;
}

const FieldTable<SftSettings>& sft_fields() {
  using S = SftSettings;
  static const auto table =
      FieldTable<S>()
          .include(common_fields({"examples", "examples", left_out_if_longer, "of the data order"}))
          .include(compute_fields())
          .field("packing", &S::packing,
                 {.help = "several examples share a row, each for itself; the batch sizes count rows then"})
          .field("heldout_fraction", &S::heldout_fraction,
                 {.help = "share of the questions kept for the held-out loss when no heldout input is given",
                  .min = 0,
                  .max = 0.9})
          .field("ignore", &S::ignore, {.help = ignored_keys_help});
  return table;
}

namespace {

const FieldTable<RolloutSettings>& rollout_fields() {
  using R = RolloutSettings;
  static const auto table =
      FieldTable<R>()
          .field("group_size", &R::group_size,
                 {.help = "answers to a prompt, which are compared with each other (not by ppo and distill, which can "
                          "do with 1); "
                          "global_batch_size counts answers",
                  .min = 1,
                  .max = 4096})
          .field("minibatches", &R::minibatches,
                 {.help = "so many times global_batch_size answers are drawn together, before the first is learnt from",
                  .min = 1,
                  .max = 65'536})
          .field("epochs", &R::epochs,
                 {.help = "so many times answers are learnt from: minibatches * epochs steps follow from one rollout",
                  .min = 1,
                  .max = 1000})
          .field("max_new_tokens", &R::max_new_tokens, {.help = "longest answer", .min = 1})
          .field("slots", &R::slots,
                 {.help = "answers that a rank generates at the same time, each with its cache", .min = 1, .max = 4096})
          .field(
              "tp", &R::tp,
              {.help = "ranks of a replica, or of ranks that only draw, that draw together: each has a part of every "
                       "matrix, and of the keys and values; 1: each draws with all of it",
               .min = 1,
               .max = 1024})
          .field("pp", &R::pp,
                 {.help = "stages of layers over ranks that draw together, tp ranks in each; 1: all layers are on each",
                  .min = 1,
                  .max = 1024})
          .field("redraws", &R::redraws,
                 {.help = "a group whose rewards are all equal is replaced by that of another prompt, so often at most "
                          "(dynamic sampling: DAPO)",
                  .min = 0,
                  .max = 64})
          .field(
              "ahead", &R::ahead,
              {.help = "the answers of a rollout are drawn, judged and compared while the steps of the rollout before "
                       "are trained, by the weights as they stood before those: older by one rollout"})
          .field("threads", &R::threads,
                 {.help = "with ahead: threads of a rank that draw answers, beside those that train; 0: as many",
                  .min = 0,
                  .max = 1024})
          .field("ranks", &R::ranks,
                 {.help = "with ahead: so many ranks of the stage, its last ones, draw the answers ahead and train "
                          "nothing; the layout is that of the others; 0: the ranks that train draw in a thread beside",
                  .min = 0,
                  .max = 65'535})
          .field("speculate", &R::speculate,
                 {.help = "the next tokens of an answer are guessed by what stands before in its text, and computed "
                          "together; answers are drawn with the same probabilities, in fewer steps of the model where "
                          "they repeat themselves or the prompt (ngram); or not (none)",
                  .choices = {"none", "ngram"}})
          .field("draft_tokens", &R::draft_tokens,
                 {.help = "longest guess of `speculate`, in tokens; shorter where guesses turn out wrong",
                  .min = 1,
                  .max = 64})
          .field("advantage", &R::advantage,
                 {.help = "grpo: rewards of a group less their mean, divided by their deviation (scaled) or not "
                          "(centered: Dr. GRPO)",
                  .choices = {"scaled", "centered"}})
          .field("ratio", &R::ratio,
                 {.help = "what is clipped: the ratio of every token, or that of the whole answer (GSPO)",
                  .choices = {"token", "sequence"}})
          .field("average", &R::average,
                 {.help = "the loss is a mean over answers of their means over tokens (answer), over all tokens of the "
                          "step (token: DAPO), or over the tokens of so many longest answers (longest: Dr. GRPO)",
                  .choices = {"answer", "token", "longest"}})
          .field(
              "surrogate", &R::surrogate,
              {.help = "how a ratio counts: both bounds, beyond which nothing is learnt (clipped), or as a weight of "
                       "the answer's log-probability up to 1 + clip_high, so that all tokens are learnt from (cispo)",
               .choices = {"clipped", "cispo"}})
          .field("clip_low", &R::clip_low, {.help = "ratios count down to 1 - clip_low", .min = 0, .max = 1})
          .field("clip_high", &R::clip_high, {.help = "and up to 1 + clip_high (DAPO: 0.28)", .min = 0, .max = 1000})
          .field(
              "dual_clip", &R::dual_clip,
              {.help = "ratios of answers with a negative advantage count up to this (3 is usual); 0 has no such bound",
               .min = 0,
               .max = 1000})
          .field("overlong", &R::overlong,
                 {.help = "answers near max_new_tokens: their reward is less by a penalty that grows with their length "
                          "(shape: DAPO), or those that were cut there are not learnt from (filter); or neither (none)",
                  .choices = {"none", "shape", "filter"}})
          .field("overlong_tokens", &R::overlong_tokens,
                 {.unit = "tokens",
                  .help = "shape: the penalty begins so many tokens before max_new_tokens (DAPO: a fifth of it)",
                  .min = 0})
          .field("overlong_penalty", &R::overlong_penalty,
                 {.help = "shape: the penalty of an answer of max_new_tokens", .min = 0, .max = 1e6})
          .field("importance_cap", &R::importance_cap,
                 {.help = "a token's loss counts min(p / q, this) times, p its probability in the forward of training "
                          "and q that under which it was drawn (truncated importance sampling; 2 is usual); 0: once",
                  .min = 0,
                  .max = 1000})
          .field(
              "turns", &R::turns,
              {.help = "so many times at most the model speaks in a conversation, each time up to max_new_tokens; in "
                       "between it is answered by `environment` or `environment_url`, whose tokens are read and not "
                       "learnt",
               .min = 1,
               .max = 1000})
          .field("environment", &R::environment,
                 {.help = "turns: a program and its arguments, run once a turn on each rank; it reads a line of JSON "
                          "for each conversation (messages, turn, answer) and prints {\"content\": a text, \"done\": "
                          "true or false} for each"})
          .field(
              "environment_url", &R::environment_url,
              {.help = "turns, in place of a program: gets a POST of {\"items\": [...]}, the lines of `environment`, "
                       "and answers {\"replies\": [...]}, one for each; https:// or http://"})
          .field("environment_role", &R::environment_role,
                 {.help = "turns: as whom the chat template writes what the environment says; tool needs a template "
                          "that has tools",
                  .choices = {"user", "tool"}})
          .field("environment_deadline_s", &R::environment_deadline_s,
                 {.help = "turns: the program is ended after so many seconds, and an endpoint's answer has to be there "
                          "by then, for all conversations of a turn",
                  .min = 1,
                  .max = 86'400});
  return table;
}

const FieldTable<PpoSettings>& ppo_fields() {
  using P = PpoSettings;
  static const auto table =
      FieldTable<P>()
          .field("critic", &P::critic,
                 {.help = "what the critic begins as: a copy of the model that learns, with a new output layer of one "
                          "number, or the reward model of inputs.reward",
                  .choices = {"policy", "reward"}})
          .field("critic_lr", &P::critic_lr,
                 {.help = "highest learning rate of the critic; all else of its optimizer is as `optimizer` says, with "
                          "moments of its own",
                  .min = 0})
          .field("value_clip", &P::value_clip,
                 {.help = "values that move further than this from those of the rollout are not learnt from where that "
                          "makes them better; 0 has no such bound",
                  .min = 0})
          .field("gamma", &P::gamma, {.help = "discount of the rewards of later tokens", .min = 0, .max = 1})
          .field("lambda", &P::lambda,
                 {.help = "GAE: 0 trusts the critic's next value alone, 1 the rewards that came", .min = 0, .max = 1})
          .field("whiten", &P::whiten, {.help = "advantages have mean 0 and deviation 1 over all tokens of a rollout"})
          .field(
              "kl", &P::kl,
              {.help = "estimator of the divergence from the reference, beta times which every token's reward is less",
               .choices = {"k1", "k2", "k3"}})
          .field("kl_target", &P::kl_target,
                 {.help = "beta is raised where the divergence a token is above this, and lowered below it; 0 keeps it",
                  .min = 0})
          .field("kl_horizon", &P::kl_horizon,
                 {.help = "answers within which kl_target changes beta by a fifth at most", .min = 1, .max = 1e12});
  return table;
}

}  // namespace

FieldTable<RewardSettings> reward_fields(const std::string& judged, const std::vector<std::string>& kinds) {
  using R = RewardSettings;
  std::vector<std::string> choices = {"exact", "number", "regex", "json", "command", "http", "tests"};
  choices.insert(choices.end(), kinds.begin(), kinds.end());
  return FieldTable<R>()
      .field("kind", &R::kind,
             {.help = "1 for a right answer, else 0: the row's answer as it stands (exact), its number as the last one "
                      "in the text (number), what the pattern finds (regex), JSON (json), a Python program that passes "
                      "the row's tests (tests); or what a program of yours says (command), an endpoint of yours "
                      "(http), " +
                      judged,
              .choices = choices})
      .field("pattern", &R::pattern,
             {.help = "regex: has to match; its first group, where it has one, has to be the row's answer"})
      .field("schema", &R::schema,
             {.help = "json: the text of a JSON schema (draft 7, without regular expressions), which the answer has to "
                      "satisfy; without one the answer has to be the row's, where the row has one"})
      .field("command", &R::command,
             {.help = "command: reads a line of JSON for each answer (prompt, completion, answer) and prints a number "
                      "for each"})
      .field("url", &R::url,
             {.help = "http: gets a POST of {\"items\": [...]}, the lines of `command`, and answers {\"rewards\": "
                      "[...]}, a number or null for each; https:// or http://"})
      .field("python", &R::python,
             {.help = "tests: the interpreter, a path, or a name in /usr/local/bin, /usr/bin or /bin"})
      .field("deadline_s", &R::deadline_s,
             {.help = "command: it is ended after so many seconds; http: the answer has to be there by then",
              .min = 1,
              .max = 86'400});
}

const FieldTable<AlignSettings>& align_fields() {
  using A = AlignSettings;
  static const FieldTable<RewardSettings> rewards =
      reward_fields("or the reward model of inputs.reward (model)", {"model"});
  static const auto table =
      FieldTable<A>()
          .include(common_fields({"pairs", "pairs", left_out_if_longer, "of the data order"}))
          .include(context_fields())
          .field("method", &A::method,
                 {.help = "preference loss; simpo and orpo need no reference model, and kto no pairs. grpo, rloo and "
                          "reinforce++ learn "
                          "from rewards of the model's own answers, and so does ppo, with a critic; distill learns "
                          "what the model of inputs.teacher says of them",
                  .choices = {"dpo", "robust", "ipo", "hinge", "simpo", "orpo", "kto", "grpo", "rloo", "reinforce++",
                              "ppo", "distill"}})
          .group("rollout", &A::rollout, rollout_fields(),
                 "grpo, rloo, reinforce++, ppo, distill: answers of the model itself")
          .group("reward", &A::reward, rewards, "grpo, rloo, reinforce++, ppo: what an answer is worth")
          .group("ppo", &A::ppo, ppo_fields(), "ppo: critic, advantages, and the divergence in the reward")
          .field(
              "beta", &A::beta,
              {.help =
                   "strength of the tie to the reference model; ipo: tau, simpo: the reward's scale, orpo: the "
                   "weight of the odds ratio; grpo, rloo, reinforce++: weight of the divergence, ppo: of that in the "
                   "reward, 0: no reference; not of distill",
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
          .field("desirable_weight", &A::desirable_weight,
                 {.help = "kto: weight of answers whose label is true; with few of them 1 to 1.33 times the weight of "
                          "the others, by the ratio of their numbers",
                  .min = 0})
          .field("undesirable_weight", &A::undesirable_weight,
                 {.help = "kto: weight of answers whose label is false", .min = 0})
          .field("ignore", &A::ignore, {.help = ignored_keys_help})
          .field("shuffle", &A::shuffle,
                 {.help =
                      "another order in every epoch; false takes the pairs in the file's order, which keeps pairs that "
                      "belong together in one batch"});
  return table;
}

namespace {

const FieldTable<RewardAttribute>& reward_attribute_fields() {
  using A = RewardAttribute;
  static const auto table =
      FieldTable<A>()
          .field("weight", &A::weight, {.help = "of its value in the one reward of an answer, which is their sum"})
          .field("min", &A::min, {.help = "smallest value that rows may have"})
          .field("max", &A::max, {.help = "largest value that rows may have"});
  return table;
}

}  // namespace

const FieldTable<RewardForm>& reward_form_fields() {
  using F = RewardForm;
  static const auto table =
      FieldTable<F>()
          .field("method", &F::method,
                 {.help = "bradley-terry: the better answer's number less the other's, and less the pair's margin, is "
                          "made larger; attributes: a number for each attribute, by least squares; process: how likely "
                          "each step of an answer is right",
                  .choices = {"bradley-terry", "attributes", "process"}})
          .named("attribute", &F::attributes, &RewardAttribute::name, reward_attribute_fields(),
                 "attributes: a number of an answer, of the key of rows with this name")
          .field("step_separator", &F::step_separator, {.help = "process: what stands between two steps of an answer"})
          .field("step_aggregate", &F::step_aggregate,
                 {.help = "process: the reward of an answer is that of its worst step (min), of all being right "
                          "(product), or of its last step (last)",
                  .choices = {"min", "product", "last"}});
  return table;
}

const FieldTable<RewardModelSettings>& reward_model_fields() {
  using R = RewardModelSettings;
  static const auto table =
      FieldTable<R>()
          .include(common_fields({"rows", "rows", left_out_if_longer, "of the data order and of the new output layer"}))
          .include(context_fields())
          .include(reward_form_fields())
          .field("center_weight", &R::center_weight,
                 {.help =
                      "bradley-terry: adds so many times the mean of (chosen + rejected)^2, which keeps rewards around "
                      "0 (TRL takes 0.01 where it does so)",
                  .min = 0})
          .field("ignore", &R::ignore, {.help = ignored_keys_help})
          .field("shuffle", &R::shuffle,
                 {.help = "another order in every epoch; false takes the pairs in the file's order"});
  return table;
}

}  // namespace longhaul
