// Losses that judge whole texts (engine/align) in layouts whose ranks share a text's tokens (cp) or a layer's experts
// (ep, etp): losses, what is said beside them, norms and weights of three steps are those of one rank.
#include <doctest/doctest.h>

#include "base/text/text.h"
#include "engine/align/labels/label_objective.h"
#include "engine/align/policy_objective.h"
#include "engine/align/preference_objective.h"
#include "engine/align/scores/attribute_objective.h"
#include "engine/align/scores/score_objective.h"
#include "engine/align/scores/step_objective.h"
#include "tests/parallel/training_on_ranks.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

constexpr std::int64_t judged_micro_batch = 2, judged_batch = 8, judged_steps = 3, judged_length = 16;

// An objective, and what it wants to know of a text, made of a number of [0, 1).
struct Judged {
  std::string name;
  ModelShape shape;
  std::int64_t texts_per_sample = 1;
  std::function<std::vector<double>(double)> numbers;
  std::function<std::unique_ptr<Objective>()> objective;
};

// Of different lengths; the ends of their answers lie on different ranks.
class JudgedTexts final : public BatchSource {
 public:
  explicit JudgedTexts(const Judged& of) : of_(of) { sequences_.padded = true; }
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override {
    const std::int64_t begin = of_.texts_per_sample * first, texts = of_.texts_per_sample * count;
    LH_CHECK(sequences_.fill(begin, texts, out));
    out.per_sequence.clear(), out.drawn.clear(), out.reference.clear(), out.returns.clear();
    for (std::int64_t text = begin; text < begin + texts; ++text) {
      const Philox random{9, static_cast<std::uint64_t>(text)};
      for (const double number : of_.numbers(random.uniform_double(100))) out.per_sequence.push_back(number);
      for (std::uint64_t t = 0; t < judged_length; ++t) {
        out.drawn.push_back(-3.6F + 0.3F * random.uniform(t)), out.reference.push_back(-3.6F + random.uniform(t + 20));
        out.returns.push_back(random.uniform(t + 40) < 0.5F ? 0.0F : 1.0F);
      }
    }
    return {};
  }
  std::int64_t samples_per_epoch() const override { return 16; }

 private:
  const Judged& of_;
  MadeUpSource sequences_{judged_length, 37, 32};
};

struct JudgedRun {
  std::vector<double> said;  // loss, norm and the rest, of each step
  std::vector<float> weights;
  Status status;
};

Status run_judged(Mesh& mesh, const Judged& judged, ContextAttentionKind kind, JudgedRun& run) {
  SetupOptions setup(judged.shape);
  setup.adam_eps = 1e-2;  // what differs in the last bits alone moves no weight
  setup.moe.balance = "none", setup.moe.z_loss_coef = 0;
  const ComputeContext context(1);
  ParameterStore store(judged.shape, DType::f32, nullptr, TrainingSetup::place_of(mesh, setup));
  TrainerOptions options = TrainingSetup::trainer_options(judged_batch, judged_steps, judged_micro_batch, setup);
  options.tokens_max = judged.texts_per_sample * judged_micro_batch * judged_length;
  LlamaOptions model = stage_options(training_schedules(options, mesh).value(), options, mesh, 0);
  model.tokens_max = options.tokens_max, model.moe = setup.moe, model.context_attention = kind;
  Llama llama(store, model);
  const std::unique_ptr<Objective> objective = judged.objective();
  JudgedTexts texts(judged);
  Trainer trainer(context, mesh, store, {&llama}, *objective, texts, options);
  initialize_parameters(context, store, 1);
  store.refresh_compute_copy(context);
  for (std::int64_t step = 0; step < judged_steps; ++step) {
    LH_TRY(const StepReport report, trainer.step());
    run.said.insert(run.said.end(), {report.loss, report.grad_norm, report.tokens});
    run.said.insert(run.said.end(), report.extra.begin(), report.extra.end());
  }
  LH_TRY(const ObjectiveSums heldout, trainer.evaluate(texts, 5));
  run.said.insert(run.said.end(), {heldout.loss, heldout.count});
  const ParameterLayout whole(judged.shape);
  run.weights.resize(static_cast<std::size_t>(whole.flat_size()));
  return gather_masters(mesh, judged.shape, store.layout(), {store.masters(), store.device()}, whole, run.weights);
}

JudgedRun judged_alone(const Judged& judged) {
  Mesh alone;
  JudgedRun run;
  run.status = run_judged(alone, judged, ContextAttentionKind::ring, run);
  REQUIRE_MESSAGE(run.status.ok(), run.status.error().message());
  REQUIRE(run.said[1] > 0);
  return run;
}

void check_judged(const Judged& judged, const JudgedRun& alone, const ParallelDims& dims,
                  ContextAttentionKind kind = ContextAttentionKind::ring) {
  CAPTURE(judged.name);
  CAPTURE(dims.to_string());
  CAPTURE(static_cast<int>(kind));
  std::vector<JudgedRun> runs(static_cast<std::size_t>(dims.world_size()));
  on_threads(dims, [&](int rank, Mesh& mesh) {
    JudgedRun& run = runs[static_cast<std::size_t>(rank)];
    run.status = run_judged(mesh, judged, kind, run);
  });
  for (const JudgedRun& run : runs) {
    REQUIRE_MESSAGE(run.status.ok(), run.status.error().message());
    REQUIRE(run.said.size() == alone.said.size());
    for (std::size_t i = 0; i < run.said.size(); ++i)
      CHECK(run.said[i] == doctest::Approx(alone.said[i]).epsilon(1e-5).scale(1));
  }
  REQUIRE(runs.front().weights.size() == alone.weights.size());
  float worst = 0;
  for (std::size_t i = 0; i < alone.weights.size(); ++i)
    worst = std::max(worst, std::abs(runs.front().weights[i] - alone.weights[i]));
  CHECK(worst < 1e-5F);
}

Judged judged_pairs(const ModelShape& shape, const std::string& method) {
  return {method, shape, 2, [](double u) { return std::vector<double>{-46 + 4 * u}; },
          [method] {
            AlignSettings s;
            s.method = method, s.beta = method == "simpo" ? 2 : 0.3;
            s.length_normalized = method != "dpo", s.sft_weight = method == "orpo" ? 0 : 0.5;
            return std::make_unique<PreferenceObjective>(s);
          }};
}

Judged judged_labels(const ModelShape& shape) {
  return {"kto", shape, 1, [](double u) { return std::vector<double>{-46 + 4 * u, u < 0.5 ? 1.0 : 0.0, 0.2}; },
          [] {
            AlignSettings s;
            s.method = "kto", s.undesirable_weight = 0.5;
            return std::make_unique<LabelObjective>(s);
          }};
}

Judged judged_answers(const ModelShape& shape) {
  return {"grpo", shape, 1, [](double u) { return std::vector<double>{2 * u - 1, 0.1, u, u < 0.5 ? 1.0 : 0.0}; },
          [] {
            AlignSettings s;
            s.method = "grpo", s.beta = 0.3, s.rollout.ratio = "sequence";
            return std::make_unique<PolicyObjective>(s, std::function<void(Value&)>());
          }};
}

Judged judged_scores(const ModelShape& shape) {
  return {"bradley-terry", with_scalar_head(shape), 2, [](double u) { return std::vector<double>{u}; },
          [] {
            RewardModelSettings s;
            s.center_weight = 0.1;
            return std::make_unique<ScoreObjective>(s);
          }};
}

Judged judged_attributes(const ModelShape& shape) {
  return {"attributes", with_scalar_head(shape, 2), 1,
          [](double u) { return std::vector<double>{4 * u, u < 0.5 ? 1 : std::nan("")}; },
          [] { return std::make_unique<AttributeObjective>(2); }};
}

Judged judged_right_steps(const ModelShape& shape) {
  return {"process", with_scalar_head(shape), 1, [](double) { return std::vector<double>(); },
          [] { return std::make_unique<StepObjective>(); }};
}

ParallelDims shared_tokens(int cp, int tp = 1, int pp = 1, int shard = 1, int zero = 0) {
  ParallelDims dims;
  dims.cp = cp, dims.tp = tp, dims.sp = tp > 1, dims.pp = pp, dims.dp_shard = shard, dims.zero = zero;
  return dims;
}

ParallelDims shared_experts(int ep, int etp, int cp, int tp, int replicas) {
  ParallelDims dims = shared_tokens(cp, tp);
  dims.ep = ep, dims.etp = etp, dims.dp_replicate = replicas;
  return dims;
}

}  // namespace

TEST_CASE("preferences with cp: three steps are those of one rank, however keys and values come") {
  const Judged dpo = judged_pairs(training_shape(), "dpo");
  const JudgedRun alone = judged_alone(dpo);
  for (const auto kind : {ContextAttentionKind::ring, ContextAttentionKind::gather, ContextAttentionKind::a2a})
    check_judged(dpo, alone, shared_tokens(2), kind);
  check_judged(dpo, alone, shared_tokens(4));
  check_judged(dpo, alone, shared_tokens(2, 2));
  check_judged(dpo, alone, shared_tokens(2, 1, 2));
  check_judged(dpo, alone, shared_tokens(2, 1, 1, 2, 3));
}

TEST_CASE("with cp every loss that judges whole texts counts each of them once, by all of its tokens") {
  const ModelShape shape = training_shape();
  for (const Judged& judged :
       {judged_pairs(shape, "ipo"), judged_pairs(shape, "simpo"), judged_pairs(shape, "orpo"), judged_labels(shape),
        judged_answers(shape), judged_scores(shape), judged_attributes(shape), judged_right_steps(shape)})
    check_judged(judged, judged_alone(judged), shared_tokens(2));
}

TEST_CASE("losses that judge whole texts learn with experts on several ranks as on one") {
  const ModelShape shape = training_mixtral_shape();
  for (const Judged& judged : {judged_pairs(shape, "dpo"), judged_labels(shape), judged_scores(shape)}) {
    const JudgedRun alone = judged_alone(judged);
    check_judged(judged, alone, shared_experts(2, 1, 1, 1, 2));
    check_judged(judged, alone, shared_experts(1, 2, 1, 2, 1));
    check_judged(judged, alone, shared_experts(2, 1, 2, 1, 1));
  }
}
