// Budgets, scaling laws and shapes, against published figures and against brute force.
#include <doctest/doctest.h>

#include <cmath>

#include "autotune/hyper/scaling_law.h"
#include "autotune/hyper/shape_for_parameters.h"
#include "autotune/hyper/training_budget.h"
#include "base/digest/philox.h"
#include "tests/support/sanitized.h"
#include "tests/support/seed.h"

namespace longhaul::hyper {
namespace {
// Of the paper itself: asks for several times as many tokens as the corrected one.
constexpr ScalingLaw chinchilla_published{"published", 1.69, 406.4, 410.7, 0.34, 0.28};
}  // namespace

TEST_CASE("the published days of two large trainings come out") {
  // Narayanan et al. 2021 (2104.04473), section 5.1: GPT-3 with 300 B tokens on 1,024 A100 at 140 TFLOP/s takes 34
  // days, a model of 1 T parameters with 450 B tokens on 3,072 at 163 takes 84, both with full recomputation.
  TrainingBudget gpt3{.parameters = 175e9, .tokens = 300e9, .gpus = 1024, .tflops = 140};
  gpt3.flops_per_parameter_token = 8;
  CHECK(solve_budget(gpt3)->days == doctest::Approx(34).epsilon(0.01));
  TrainingBudget trillion{.parameters = 1e12, .tokens = 450e9, .gpus = 3072, .tflops = 163};
  trillion.flops_per_parameter_token = 8;
  CHECK(solve_budget(trillion)->days == doctest::Approx(84).epsilon(0.02));
}

TEST_CASE("any one of parameters, tokens, days, GPUs and rate follows from the other four") {
  const std::uint64_t seed = testing::seed(8);
  CAPTURE(seed);
  PhiloxSequence draws(seed);
  double TrainingBudget::* const members[] = {&TrainingBudget::parameters, &TrainingBudget::tokens,
                                              &TrainingBudget::days, &TrainingBudget::gpus, &TrainingBudget::tflops};
  for (int i = 0; i < 50; ++i) {
    TrainingBudget whole{.parameters = 1e9 * (1 + 99 * draws.next_uniform()),
                         .tokens = 1e12 * draws.next_uniform(),
                         .days = 1 + 90 * draws.next_uniform(),
                         .gpus = 8 + 8000 * draws.next_uniform()};
    whole = *solve_budget(whole);
    CHECK(whole.flops() == doctest::Approx(whole.days * 86'400 * whole.gpus * whole.tflops * 1e12));
    for (const auto member : members) {
      TrainingBudget asked = whole;
      asked.*member = 0;
      const auto found = solve_budget(asked);
      REQUIRE(found.ok());
      CHECK((*found).*member == doctest::Approx(whole.*member));
    }
  }
}

TEST_CASE("with a ratio of tokens to parameters both follow from machine and time") {
  TrainingBudget b{.days = 30, .gpus = 1024, .tflops = 400, .tokens_per_parameter = 20};
  const auto both = solve_budget(b);
  REQUIRE(both.ok());
  CHECK(both->tokens == doctest::Approx(20 * both->parameters));
  CHECK(both->flops() == doctest::Approx(30.0 * 86'400 * 1024 * 400e12));
  b = {.parameters = 8e9, .gpus = 64, .tflops = 400, .tokens_per_parameter = 20};
  CHECK(solve_budget(b)->tokens == doctest::Approx(160e9));
  CHECK(solve_budget(b)->days == doctest::Approx(6 * 8e9 * 160e9 / (86'400.0 * 64 * 400e12)));
  CHECK(solve_budget(b)->gpu_hours() == doctest::Approx(6 * 8e9 * 160e9 / (3600.0 * 400e12)));
}

TEST_CASE("a budget that says too little, too much or nonsense names what") {
  const auto error = [](const TrainingBudget& b) { return solve_budget(b).error().what; };
  CHECK(error({.parameters = 1e9, .days = 1, .gpus = 1}).find("tokens, tflops are missing") != std::string::npos);
  CHECK(error({.parameters = 1, .tokens = 1, .days = 1, .gpus = 1, .tflops = 1}).find("nothing to find out") !=
        std::string::npos);
  CHECK(error({.parameters = -1, .tokens = 1, .days = 1, .gpus = NAN}) == "of a budget: parameters = -1, gpus = nan");
  CHECK(error({.parameters = 1, .tokens = 1, .tokens_per_parameter = 20}).find("one too many") != std::string::npos);
}

TEST_CASE("the closed form of the optimum is the least loss of all splits of the same computation") {
  for (const ScalingLaw& law : {chinchilla_published, chinchilla_corrected})
    for (const double flops : {1e18, 1e21, 5.76e23, 4e25}) {
      CAPTURE(law.name);
      CAPTURE(flops);
      const ComputeOptimal best = compute_optimal(flops, law);
      CHECK(6 * best.parameters * best.tokens == doctest::Approx(flops));
      double least = 1e9, at = 0;
      for (double n = 1e6; n < 1e14; n *= 1.01)
        if (const double loss = law.loss(n, flops / (6 * n)); loss < least) least = loss, at = n;
      CHECK(best.loss <= least + 1e-12);
      CHECK(best.parameters == doctest::Approx(at).epsilon(0.02));
    }
}

TEST_CASE("the corrected law agrees with twenty tokens per parameter, the published one does not") {
  // Gopher's budget, 5.76e23: Chinchilla took 70 B parameters and 1.4 T tokens for it.
  const ComputeOptimal best = compute_optimal(5.76e23);
  CHECK(best.parameters == doctest::Approx(70e9).epsilon(0.1));
  CHECK(best.tokens_per_parameter() == doctest::Approx(20).epsilon(0.15));
  CHECK(compute_optimal(5.76e23, chinchilla_published).tokens_per_parameter() > 70);
  // Twenty tokens per parameter for the same computation cost next to nothing.
  const double rule = std::sqrt(5.76e23 / (6 * 20)), loss = chinchilla_corrected.loss(rule, 20 * rule);
  CHECK(loss >= best.loss);
  CHECK(loss < 1.001 * best.loss);
}

TEST_CASE("a shape is found for any number of parameters, within 2 % and with the usual proportions") {
  const std::uint64_t seed = testing::seed(12);
  CAPTURE(seed);
  PhiloxSequence draws(seed);
  for (int i = 0; i < (testing::sanitized ? 6 : 60); ++i) {
    ShapeWish wish;
    wish.parameters = std::exp(std::log(3e8) + draws.next_uniform() * std::log(1e12 / 3e8));
    wish.vocab_size = draws.next_below(2) ? 32'000 : 128'256;
    CAPTURE(wish.parameters);
    CAPTURE(wish.vocab_size);
    const auto found = shape_for_parameters(wish);
    REQUIRE(found.ok());
    const ModelShape& s = found->shape;
    const double ratio = static_cast<double>(s.parameter_count()) / wish.parameters;
    CHECK(std::fabs(ratio - 1) <= 0.02);
    CHECK(found->deviation == doctest::Approx(ratio - 1));
    CHECK(s.hidden_size == s.num_attention_heads * s.head_dim);
    CHECK(s.head_dim == (s.hidden_size >= 1024 ? 128 : 64));
    CHECK(s.num_attention_heads % s.num_key_value_heads == 0);
    for (const std::int64_t split : {s.num_attention_heads, s.num_key_value_heads, s.intermediate_size})
      CHECK(split % found->tp == 0);
    if (wish.parameters > 3e9) CHECK(found->tp == 8);
    const double aspect = static_cast<double>(s.hidden_size) / static_cast<double>(s.num_hidden_layers);
    CHECK(aspect > 25);
    CHECK(aspect < 200);
    const double ffn = static_cast<double>(s.intermediate_size) / static_cast<double>(s.hidden_size);
    CHECK(ffn > 1.7);
    CHECK(ffn < 4.5);
  }
}

TEST_CASE("8 B parameters with Llama 3's vocabulary give Llama 3's own shape, found by the rule") {
  const auto found = shape_for_parameters({.parameters = 8e9});
  REQUIRE(found.ok());
  CHECK(found->shape.hidden_size == 4096);
  CHECK(found->shape.num_hidden_layers == 32);
  CHECK(found->shape.num_attention_heads == 32);
  CHECK(found->shape.num_key_value_heads == 8);
  CHECK(found->shape.intermediate_size == 14'336);
  CHECK(!found->shape.tie_word_embeddings);
}

TEST_CASE("what no shape can have is refused with the reason") {
  const auto few = shape_for_parameters({.parameters = 1e6});
  REQUIRE(!few.ok());
  CHECK(few.error().what.find("vocabulary of 128256") != std::string::npos);
  CHECK(!shape_for_parameters({.parameters = 0}).ok());
  CHECK(!shape_for_parameters({.parameters = 1e9, .head_dim = 7}).ok());
}

}  // namespace longhaul::hyper
