#include "engine/train/optimizer/expert_bias.h"

#include <doctest/doctest.h>

#include "base/text/text.h"
#include "tests/unit/engine/train/training_setup.h"

using namespace longhaul;

TEST_CASE("a step moves a layer's bias towards the experts that had too few tokens, and no other layer's") {
  test::SetupOptions options(test::training_mixtral_shape());
  options.shape.num_local_experts = 4;
  options.shape.router_score = "sigmoid", options.shape.router_bias = true;
  options.moe.balance = "bias";
  test::TrainingSetup setup(2, 2, 2, nullptr, DType::f32, 8, options);
  step_expert_bias(setup.context, setup.store, setup.pointers(), 1, 0.5F, std::vector<float>{5, 2, 3, 2});
  int biases = 0;
  for (const FlatParameter& p : setup.store.layout().parameters()) {
    if (!ends_with(p.spec.name, "e_score_correction_bias")) continue;
    CAPTURE(p.spec.name);
    const std::span<const float> masters =
        setup.store.masters().subspan(static_cast<std::size_t>(p.begin), static_cast<std::size_t>(p.end - p.begin));
    const std::vector<float> expected = {-0.5F, 0.5F, 0, 0.5F}, unmoved(4, 0.0F);
    CHECK(std::vector<float>(masters.begin(), masters.end()) == (p.spec.layer == 1 ? expected : unmoved));
    ++biases;
  }
  CHECK(biases == 2);
}
