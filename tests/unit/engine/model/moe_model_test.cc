// A whole model with experts on one rank, against the f64 reference.
#include <doctest/doctest.h>

#include <cmath>

#include "base/digest/philox.h"
#include "base/text/text.h"
#include "engine/model/llama.h"
#include "tests/unit/engine/model/reference_model.h"

using namespace longhaul;

namespace {

struct MoeBatch {
  std::vector<std::int32_t> ids, targets;
  std::vector<float> weights;
  std::int64_t sequences, length;
  MicroBatch view() const { return {sequences, length, ids, targets, {}, {}}; }
};

MoeBatch moe_batch(std::uint64_t seed, std::int64_t sequences, std::int64_t length, std::int64_t vocab) {
  MoeBatch b;
  b.sequences = sequences, b.length = length;
  PhiloxSequence random(seed, 1);
  for (std::int64_t t = 0; t < sequences * length; ++t) {
    b.ids.push_back(static_cast<std::int32_t>(random.next_below(static_cast<std::uint64_t>(vocab))));
    const bool masked = random.next_below(5) == 0;
    b.targets.push_back(masked ? -1 : static_cast<std::int32_t>(random.next_below(static_cast<std::uint64_t>(vocab))));
    b.weights.push_back(masked ? 0.0F : 1.0F);
  }
  return b;
}

struct MoeCase {
  const char* name;
  ModelShape shape;
  MoeSettings settings;
};

std::vector<MoeCase> moe_cases() {
  std::vector<MoeCase> cases;
  const auto add = [&](const char* name) -> MoeCase& {
    cases.push_back({name, test::tiny_mixtral_shape(), {}});
    cases.back().settings.aux_loss_coef = 0.3, cases.back().settings.z_loss_coef = 0.05;
    return cases.back();
  };
  add("Mixtral");
  add("Hugging Face's loss").settings.aux_loss = "hugging_face";
  MoeCase& full = add("tokens are dropped by probability");
  full.settings.capacity_factor = 0.8;
  full.shape.router_score = "softmax_all";
  MoeCase& last = add("tokens are dropped by position");
  last.settings.capacity_factor = 0.8, last.settings.drop_policy = "position";
  MoeCase& deep = add("sigmoid, groups, a bias and shared experts");
  deep.shape.router_score = "sigmoid", deep.shape.router_bias = true, deep.shape.n_shared_experts = 2;
  deep.shape.routed_scaling_factor = 2.5, deep.shape.n_group = 2, deep.shape.topk_group = 1;
  return cases;
}

void spread(ParameterStore& store, std::uint64_t seed) {
  for (const FlatParameter& p : store.layout().parameters()) {
    const bool router = p.spec.name.find("block_sparse_moe.gate") != std::string::npos;
    if (p.spec.shape.size() > 1 && !router) continue;
    // Norms that are not 1, a bias that is not 0, a router that is sure of itself.
    const float base = router ? 0.0F : 1.0F, deviation = 0.3F;
    for (std::int64_t i = p.begin; i < p.end; ++i)
      store.masters()[static_cast<std::size_t>(i)] =
          base + deviation * static_cast<float>(
                                 Philox{seed, parameter_stream(p.spec.name)}.normal(static_cast<std::uint64_t>(i)));
  }
}

LlamaOptions moe_options(const MoeSettings& settings, std::int64_t tokens, int slots = 1, bool split = false) {
  LlamaOptions options;
  options.tokens_max = tokens, options.slots = slots, options.split_backward = split, options.moe = settings;
  return options;
}

}  // namespace

TEST_CASE("a model with experts: loss and every parameter's gradient agree with the f64 reference") {
  for (const MoeCase& one : moe_cases()) {
    CAPTURE(std::string(one.name));
    const ComputeContext context(1);
    ParameterStore store(one.shape, DType::f32);
    std::uint64_t seed = 31;
    // Until f32 and f64 must choose the same experts.
    for (double gap = 0; gap < 1e-3; ++seed) {
      initialize_parameters(context, store, seed + 1);
      spread(store, seed + 1);
      const std::vector<double> flat(store.masters().begin(), store.masters().end());
      test::Routing routing;
      test::ReferenceModel reference(one.shape, store.layout(), flat);
      reference.moe = one.settings, reference.routing = &routing;
      (void)reference.logits(moe_batch(seed + 1, 2, 10, one.shape.vocab_size).view());
      gap = routing.gap;
    }
    CAPTURE(seed);
    const MoeBatch batch = moe_batch(seed, 2, 10, one.shape.vocab_size);
    Llama model(store, moe_options(one.settings, 20));
    std::vector<float> gradient(static_cast<std::size_t>(store.layout().flat_size()), 99.0F), loss(20);
    GradientTarget target;
    target.flat = gradient, target.overwrite = true;
    model.forward(context, 0, batch.view());
    model.backward(context, 0, batch.weights, loss, target);

    std::vector<double> flat(store.masters().begin(), store.masters().end());
    test::Routing routing;
    test::ReferenceModel reference(one.shape, store.layout(), flat);
    reference.moe = one.settings, reference.routing = &routing;
    const double want = reference.loss(batch.view(), batch.weights);
    REQUIRE(routing.gap >= 1e-3);
    const reference::Vector want_logits = reference.logits(batch.view());
    std::vector<float> logits(static_cast<std::size_t>(20 * one.shape.vocab_size));
    model.logits(context, 0, 0, 20, logits);
    for (std::size_t i = 0; i < logits.size(); ++i)
      CHECK(static_cast<double>(logits[i]) == doctest::Approx(want_logits[i]).epsilon(1e-4));

    MoeTotals totals = model.experts()->take_totals();
    double sum = 0, chosen = 0;
    for (std::size_t t = 0; t < loss.size(); ++t)
      sum += static_cast<double>(batch.weights[t]) * static_cast<double>(loss[t]);
    for (int layer = 0; layer < 2; ++layer) {
      sum += static_cast<double>(totals.balance_loss(layer)) + static_cast<double>(totals.z_loss(layer));
      for (const float count : totals.counts(layer)) chosen += static_cast<double>(count);
    }
    CHECK(sum == doctest::Approx(want).epsilon(1e-5));
    CHECK(chosen == 2 * 20 * 2);

    for (const FlatParameter& p : store.layout().parameters()) {
      CAPTURE(p.spec.name);
      const bool no_gradient = p.spec.name.find("e_score_correction_bias") != std::string::npos;
      const Philox random{seed, parameter_stream(p.spec.name) + 1};
      const std::vector<double> saved = flat;
      double analytic = 0, norm = 0;
      const double step = 1e-5;
      for (std::int64_t i = p.begin; i < p.end; ++i) {
        const double g = static_cast<double>(gradient[static_cast<std::size_t>(i)]);
        analytic += g * random.normal(static_cast<std::uint64_t>(i));
        norm += g * g;
      }
      const auto loss_moved = [&](double by) {
        for (std::int64_t i = p.begin; i < p.end; ++i)
          flat[static_cast<std::size_t>(i)] =
              saved[static_cast<std::size_t>(i)] + by * random.normal(static_cast<std::uint64_t>(i));
        const double moved = reference.loss(batch.view(), batch.weights);
        flat = saved;
        return moved;
      };
      CHECK((norm > 0) == !no_gradient);
      if (no_gradient) continue;
      CHECK(std::abs(analytic - (loss_moved(step) - loss_moved(-step)) / (2 * step)) < 2e-4 * std::sqrt(norm) + 1e-6);
    }
  }
}

TEST_CASE("experts: split backward over several slots equals the joint one, bit for bit") {
  for (const MoeCase& one : moe_cases()) {
    CAPTURE(one.name);
    const ComputeContext context(1);
    ParameterStore store(one.shape, DType::f32);
    initialize_parameters(context, store, 3);
    const MoeBatch a = moe_batch(21, 2, 8, one.shape.vocab_size), b = moe_batch(22, 1, 16, one.shape.vocab_size);
    const auto size = static_cast<std::size_t>(store.layout().flat_size());
    std::vector<float> joint(size), split(size), loss(16);
    GradientTarget target;
    target.flat = joint;
    Llama together(store, moe_options(one.settings, 16));
    for (const MoeBatch* batch : {&a, &b}) {
      target.overwrite = batch == &a;
      together.forward(context, 0, batch->view());
      together.backward(context, 0, batch->weights, loss, target);
    }
    Llama apart(store, moe_options(one.settings, 16, 2, true));
    target.flat = split;
    apart.forward(context, 0, a.view());
    apart.forward(context, 1, b.view());
    apart.backward(context, 0, a.weights, loss, target);
    apart.backward(context, 1, b.weights, loss, target);
    target.overwrite = true;
    apart.backward_weight(context, 0, target);
    target.overwrite = false;
    apart.backward_weight(context, 1, target);
    // Norms and embedding were added by the input's backward; the experts came with the weights'.
    for (const FlatParameter& p : store.layout().parameters())
      if (p.spec.name.find("block_sparse_moe") != std::string::npos)
        for (std::int64_t i = p.begin; i < p.end; ++i)
          CHECK(joint[static_cast<std::size_t>(i)] == split[static_cast<std::size_t>(i)]);
  }
}

TEST_CASE("experts: what is computed again gives the same bits, counts once, and needs less memory") {
  for (const MoeCase& one : moe_cases())
    for (const bool split : {false, true}) {
      CAPTURE(std::string(one.name));
      CAPTURE(split);
      const ComputeContext context(1);
      ParameterStore store(one.shape, DType::f32);
      initialize_parameters(context, store, 3);
      spread(store, 3);
      const MoeBatch batch = moe_batch(3, 2, 10, one.shape.vocab_size);
      struct Ran {
        std::vector<float> gradient, loss, totals;
        std::int64_t bytes = 0;
      };
      const auto run = [&](const std::vector<std::string>& modules) {
        MemoryAccounts memory;
        LlamaOptions options = moe_options(one.settings, 20, 2, split);
        options.recompute = recompute_from({modules, 0}).value();
        options.memory = &memory;
        Llama model(store, options);
        Ran ran;
        ran.gradient.assign(static_cast<std::size_t>(store.layout().flat_size()), 99.0F);
        ran.loss.resize(20);
        GradientTarget target;
        target.flat = ran.gradient, target.overwrite = true;
        // Another micro-batch in between works in the same memory.
        const MoeBatch other = moe_batch(4, 2, 10, one.shape.vocab_size);
        model.forward(context, 0, batch.view());
        model.forward(context, 1, other.view());
        model.backward(context, 0, batch.weights, ran.loss, target);
        if (split) model.backward_weight(context, 0, target);
        ran.totals = model.experts()->take_totals().values;
        ran.bytes = memory.all().bytes_now;
        return ran;
      };
      const Ran kept = run({});
      std::int64_t bytes = kept.bytes;
      for (const char* module : {"activation", "feed_forward", "block"}) {
        CAPTURE(std::string(module));
        const Ran again = run({module});
        CHECK(again.gradient == kept.gradient);
        CHECK(again.loss == kept.loss);
        CHECK(again.totals == kept.totals);
        CHECK(again.bytes < bytes);
        bytes = again.bytes;
      }
    }
}

TEST_CASE("experts in bf16 stay near the f64 reference") {
  const ModelShape shape = test::tiny_mixtral_shape();
  const ComputeContext context(1);
  ParameterStore store(shape, DType::bf16);
  initialize_parameters(context, store, 5);
  const MoeBatch batch = moe_batch(5, 2, 16, shape.vocab_size);
  MoeSettings settings;
  Llama model(store, moe_options(settings, 32));
  std::vector<float> gradient(static_cast<std::size_t>(store.layout().flat_size())), loss(32);
  GradientTarget target;
  target.flat = gradient, target.overwrite = true;
  model.forward(context, 0, batch.view());
  model.backward(context, 0, batch.weights, loss, target);
  double sum = 0;
  for (std::size_t t = 0; t < loss.size(); ++t)
    sum += static_cast<double>(batch.weights[t]) * static_cast<double>(loss[t]);
  const std::vector<double> flat(store.masters().begin(), store.masters().end());
  settings.aux_loss_coef = 0;
  test::ReferenceModel reference(shape, store.layout(), flat);
  reference.moe = settings;
  CHECK(sum == doctest::Approx(reference.loss(batch.view(), batch.weights)).epsilon(1e-2));
}
