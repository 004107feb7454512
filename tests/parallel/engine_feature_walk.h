// The table of what the engine can do (contracts/settings/training/feature_table.h), row by row: what runs trains a
// step here, or answers; what is refused is refused by the engine's own check, with the text of the table.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>

#include "base/text/text.h"
#include "contracts/settings/training/feature_table.h"
#include "engine/align/preference_objective.h"
#include "engine/align/scores/score_objective.h"
#include "engine/model/adapter/adapter_export.h"
#include "engine/model/inference/inference_model.h"
#include "engine/model/inference/stored_weights.h"
#include "engine/quantize/weight_format.h"
#include "engine/tasks/common/training_check.h"
#include "engine/tasks/drawing/drawing_weights.h"
#include "engine/tasks/stages/rollout_stage.h"
#include "tests/parallel/training_on_ranks.h"
#include "tests/unit/engine/model/inference_folder.h"

namespace longhaul::test {

// Runs every rank of a layout with its mesh, and with its GPU where it has one.
using OnRanks = std::function<void(const ParallelDims&, const std::function<void(int rank, Mesh&, Gpu*)>&)>;

struct WalkedRows {
  int ran = 0, refused = 0, absent = 0;
  std::vector<std::string> nowhere;  // neither a processor nor the emulation can run them

  std::string text(const char* where, const char* verb) const {
    return format("{}: {} rows {}, {} refused, {} with nothing to ask for, {} trained nowhere{}{}", where, ran, verb,
                  refused, absent, nowhere.size(), nowhere.empty() ? "" : ": ", join(nowhere, "; "));
  }
};

constexpr std::int64_t walked_micro_batch = 2, walked_length = 16;  // sequences, tokens

inline DType walked_type(const EngineCase& c) {
  return c.precision == "bf16" ? DType::bf16 : DType::f32;
}
inline std::int64_t walked_batch(const EngineCase& c) {
  return walked_micro_batch * c.dims.dp() * (c.dims.pp > 1 ? 2 : 1);
}

inline TrainingStageSettings walked_settings(const EngineCase& c) {
  TrainingStageSettings s;
  s.shape = resolve_shape(c.shape).value();
  s.precision = c.precision, s.device = c.gpu ? "gpu" : "cpu", s.attention_backend = c.attention_backend;
  s.moe = c.moe, s.optimizer = c.optimizer, s.corruption = c.corruption;
  s.adapter = c.adapter, s.start_model = c.adapter.on() ? "a model" : "";
  s.pipeline = c.pipeline, s.overlap = c.overlap, s.recompute = c.recompute, s.low_precision = c.low_precision;
  s.cp_attention = c.cp_attention, s.deterministic = c.deterministic, s.dropout = c.dropout;
  s.trace.kernels = c.kernel_trace, s.draws_answers = c.draws_answers;
  s.sequence_length = walked_length, s.one_length = true;
  s.micro_batch_size = walked_micro_batch, s.global_batch_size = walked_batch(c);
  return s;
}

inline SetupOptions walked_setup(const EngineCase& c, const std::string& folder, Gpu* gpu) {
  SetupOptions o(c.shape);
  o.gpu = gpu;
  o.pipeline = c.pipeline, o.overlap = c.overlap.gradients;
  o.recompute = recompute_from(c.recompute).value();
  o.low_precision = c.low_precision, o.low_precision.check_every_steps = 0;  // computed in it, whatever comes of it
  o.adapter = c.adapter;
  o.moe = c.moe, o.packed = c.document_mask, o.dropout = c.dropout;
  o.context_attention = context_attention_kind(c.cp_attention).value();
  o.check_contributions = c.corruption.check != "off", o.replay_every = c.corruption.check == "replay" ? 1 : 0;
  o.moments = c.optimizer.moments, o.rounding = c.optimizer.rounding;
  if (c.optimizer.offload == "node_local") o.offload_dir = folder;
  return o;
}

// Two answers of a pair, and what a reference model says of each (or, for a reward model, a margin).
class MadeUpPairs final : public BatchSource {
 public:
  explicit MadeUpPairs(double said) : said_(said) {}
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override {
    LH_CHECK(sequences_.fill(2 * first, 2 * count, out));
    out.per_sequence.assign(static_cast<std::size_t>(2 * count), said_);
    return {};
  }
  std::int64_t samples_per_epoch() const override { return 16; }

 private:
  double said_;
  MadeUpSource sequences_{walked_length, 37, 32};
};

// A prompt, and one token after it.
inline Status answer_by(InferenceModel& model, const ComputeContext& context) {
  KvCache cache = model.make_cache(walked_length);
  const std::vector<std::int32_t> prompt = inference_tokens(4, 5), token = {7};
  std::vector<float> logits(static_cast<std::size_t>(model.shape().vocab_size));
  for (const std::vector<std::int32_t>* tokens : {&prompt, &token}) {
    const SequenceStep step{&cache, *tokens};
    LH_CHECK(model.forward(context, {&step, 1}, LogitsWanted::last, logits));
    for (const float logit : logits)
      if (!std::isfinite(logit)) return make_error(ErrorCode::internal, "a logit is no number");
  }
  return {};
}

// By the weights of a training, taken as rollouts take them.
inline Status answer_in_training(const ComputeContext& context, const ParameterStore& store, DType dtype) {
  InferenceWeights empty;
  empty.dtype = dtype;
  if (context.device() != nullptr) {
    empty.memory = std::make_unique<MemoryAccount>();
    empty.memory->device = context.device();
  }
  LH_TRY(InferenceWeights weights, inference_weights_of(context, store, std::move(empty)));
  InferenceModel model(store.shape(), std::move(weights));
  return answer_by(model, context);
}

inline Result<double> aligned_loss(const EngineCase& c, Mesh& mesh, const SetupOptions& setup) {
  MemoryAccounts own;
  MemoryAccounts& memory = TrainingSetup::accounts_of(setup.gpu, own);
  const ComputeContext context = setup.gpu ? ComputeContext(setup.gpu->device(), setup.gpu->ops()) : ComputeContext(1);
  LH_TRY(const AdapterStores stores, make_adapter_stores(context, TrainingSetup::trained_shape(setup), walked_type(c),
                                                         &memory, TrainingSetup::place_of(mesh, setup), mesh));
  TrainerOptions options = TrainingSetup::trainer_options(walked_batch(c), 1, walked_micro_batch, setup);
  options.tokens_max = 2 * walked_micro_batch * walked_length, options.adapted = stores.adapted.get();
  LlamaOptions model = stage_options(training_schedules(options, mesh).value(), options, mesh, 0);
  model.tokens_max = options.tokens_max, model.moe = setup.moe, model.memory = &memory;
  model.context_attention = setup.context_attention;
  Llama llama(stores.weights(), model);
  PreferenceObjective preferences{AlignSettings()};
  ScoreObjective scores{RewardModelSettings()};
  Objective& objective = setup.shape.scalar_head ? static_cast<Objective&>(scores) : preferences;
  MadeUpPairs pairs(setup.shape.scalar_head ? 0.5 : -50);
  Trainer trainer(context, mesh, *stores.trained, {&llama}, objective, pairs, options, &memory);
  initialize_parameters(context, stores.weights(), 1);
  if (stores.adapted) stores.adapted->initialize(2);
  stores.trained->refresh_compute_copy(context);
  if (c.draws_answers && !holds_parts(c.dims)) LH_CHECK(answer_in_training(context, stores.weights(), walked_type(c)));
  LH_TRY(const auto report, trainer.step());
  return report.loss;
}

inline Result<double> trained_loss(const EngineCase& c, Mesh& mesh, const SetupOptions& setup) {
  if (c.kind == "align") return aligned_loss(c, mesh, setup);
  if (c.kind == "reward") {
    SetupOptions scored = setup;
    scored.shape = with_scalar_head(setup.shape);
    return aligned_loss(c, mesh, scored);
  }
  const int steps = c.low_precision.on() ? 2 : 1;  // a delayed scale comes from the step before
  TrainingSetup training(walked_batch(c), steps, walked_micro_batch, &mesh, walked_type(c), 32, setup);
  double loss = 0;
  for (int step = 0; step < steps; ++step) {
    LH_TRY(const auto report, training.trainer.step());
    loss = report.loss;
  }
  return loss;
}

// One step by all ranks of the case. Their losses are the same, and numbers.
inline Status train_a_step(const EngineCase& c, const OnRanks& on_ranks) {
  const testing::Scratch scratch;
  std::vector<Result<double>> losses(static_cast<std::size_t>(c.dims.world_size()),
                                     Result<double>(make_error(ErrorCode::internal, "a rank has no mesh")));
  on_ranks(c.dims, [&](int rank, Mesh& mesh, Gpu* gpu) {
    losses[static_cast<std::size_t>(rank)] = trained_loss(c, mesh, walked_setup(c, scratch.path(), gpu));
  });
  for (const Result<double>& loss : losses) {
    LH_CHECK(loss);
    if (!std::isfinite(*loss) || *loss <= 0 || *loss != *losses.front())
      return make_error(ErrorCode::internal, format("a loss of {}, the first rank's is {}", *loss, *losses.front()));
  }
  return {};
}

// The folder of a model of the case, with weights in its format.
struct WalkedModel {
  explicit WalkedModel(const EngineCase& c)
      : store(c.shape, walked_type(c)), folder(initialized(store)), quantized(scratch.path() + "/quantized") {
    if (!c.weights.empty())
      made = quantize_folder(folder.path, quantized, parse_weight_codes(c.weights), c.quantized_embedding);
    path = c.weights.empty() ? folder.path : quantized;
  }
  static const ParameterStore& initialized(ParameterStore& store) {
    initialize_parameters(ComputeContext(1), store, 1);
    return store;
  }

  ParameterStore store;
  InferenceFolder folder;
  testing::Scratch scratch;
  std::string quantized, path;
  Result<QuantizedBytes> made = QuantizedBytes();
};

inline Status answer(const EngineCase& c, Gpu* gpu) {
  const WalkedModel model(c);
  LH_CHECK(model.made);
  LH_TRY(InferenceModel loaded, InferenceModel::load(model.path, walked_type(c), gpu ? &gpu->device() : nullptr));
  if (c.kind == "quantize") return {};
  const ComputeContext context = gpu ? ComputeContext(gpu->device(), gpu->ops()) : ComputeContext(1);
  return answer_by(loaded, context);
}

inline AlignSettings walked_rollouts(const EngineCase& c) {
  AlignSettings s;
  const TrainingStageSettings walked = walked_settings(c);
  static_cast<TrainingCommon&>(s) = walked, static_cast<ContextChoice&>(s) = walked;
  s.method = "grpo";
  s.rollout.ahead = c.draws_ahead, s.rollout.speculate = c.guesses_tokens ? "ngram" : "none";
  s.rollout.ranks = c.rollout_ranks;
  return s;
}

// What the engine says of it, before it takes memory for a training.
inline Status asked_of_the_engine(const EngineCase& c, Gpu* gpu) {
  if (c.kind == "deploy" || c.kind == "quantize") return answer(c, gpu);
  if (c.draws_answers || c.rollout_ranks > 0) LH_CHECK(check_rollout_features(walked_rollouts(c), c.shape, c.dims));
  return check_training(c.kind, walked_settings(c), c.dims);
}

inline void walk_row(const EngineFeature& row, ModelFamily family, bool gpu, const OnRanks& on_ranks,
                     const std::function<void(const std::function<void(Gpu*)>&)>& on_one,
                     const std::vector<std::string>& nowhere, WalkedRows& walked) {
  const EngineCase c = engine_case_for(row, family, gpu);
  const std::string name = format("{}, {}: {}", row.area, row.name, to_string(family));
  CAPTURE(name);
  const FeatureState state = row.on(gpu).state;
  if (state == FeatureState::none) {
    ++walked.absent;
    return;
  }
  const bool uses_a_model = c.kind == "deploy" || c.kind == "quantize";
  Status said;
  on_one([&](Gpu* one) { said = asked_of_the_engine(c, one); });
  if (state == FeatureState::refused) {
    const bool refused = !said.ok() && said.error().code == ErrorCode::unsupported;
    CHECK_MESSAGE(refused, (said.ok() ? "was accepted" : said.error().message()));
    if (refused) CHECK(said.error().what.find(row.refusal(c)) != std::string::npos);
    ++walked.refused;
    return;
  }
  CHECK_MESSAGE(said.ok(), (said.ok() ? "" : said.error().message()));
  if (std::find(nowhere.begin(), nowhere.end(), row.name) != nowhere.end()) {
    walked.nowhere.push_back(name);
    return;
  }
  if (!uses_a_model) {
    const Status trained = train_a_step(c, on_ranks);
    CHECK_MESSAGE(trained.ok(), (trained.ok() ? "" : trained.error().message()));
  }
  ++walked.ran;
}

}  // namespace longhaul::test
