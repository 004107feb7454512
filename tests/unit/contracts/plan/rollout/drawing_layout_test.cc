#include "contracts/plan/rollout/drawing_layout.h"

#include <doctest/doctest.h>

#include "contracts/settings/stages/alignment.h"

namespace longhaul {
namespace {

namespace drawing_layout_test {

ParallelDims training_layout(int tp, int cp, int pp, int zero = 0) {
  ParallelDims dims;
  dims.tp = tp, dims.cp = cp, dims.pp = pp, dims.dp_shard = 2, dims.zero = zero;
  return dims;
}

RolloutSettings drawing_by(int tp, int pp) {
  RolloutSettings rollout;
  rollout.tp = tp, rollout.pp = pp;
  return rollout;
}

ModelShape four_heads() {
  ModelShape shape;
  shape.num_attention_heads = shape.num_key_value_heads = 4, shape.vocab_size = 100;
  return shape;
}

TEST_CASE("ranks of a replica draw as copies of the layout that draws, tp fastest, then copies, then stages") {
  const ModelShape shape = four_heads();
  const ParallelDims training = training_layout(2, 2, 2), drawing = drawing_dims(drawing_by(2, 2), shape, training);
  CHECK(drawing.to_string() == "tp=2 pp=2 dp=2");
  CHECK(drawing.world_size() == 8);
  for (int rank = 0; rank < 8; ++rank) {
    const MeshPlace place = drawing_place(drawing, shape, rank, {});
    CHECK(place.at.tp == rank % 2);
    CHECK(place.at.pp == rank / 4);
    CHECK(place.dims.world_size() == 4);  // of one copy
    CHECK(place.stages == even_stages(4, 2));
  }
  RankCoordinates at;
  at.tp = 1, at.cp = 0, at.pp = 1, at.dp_shard = 1;
  CHECK(rank_of_replica(training, at) == 5);
  at.cp = 1;
  CHECK(rank_of_replica(training, at) == 7);
  // As the training's pipeline has its layers, where that has as many stages and no more than one on a rank.
  CHECK(drawing_place(drawing, shape, 0, {2, 1, {3, 1}}).stages.layers == std::vector<int>{3, 1});
  CHECK(drawing_place(drawing, shape, 0, {2, 2, {1, 1, 1, 1}}).stages == even_stages(4, 2));
  ModelShape experts = shape;
  experts.architecture = "mixtral", experts.num_local_experts = 4, experts.moe_intermediate_size = 64;
  CHECK(drawing_dims(drawing_by(2, 1), experts, training).etp == 2);
}

TEST_CASE("a rank draws with what it trains where both layouts part the model alike") {
  const ModelShape shape = four_heads();
  const auto own = [&](const ParallelDims& training, int tp, int pp) {
    return draws_with_its_own(training, drawing_dims(drawing_by(tp, pp), shape, training));
  };
  CHECK(own(training_layout(1, 2, 1), 1, 1));
  CHECK(own(training_layout(1, 1, 1, 2), 1, 1));
  CHECK_FALSE(own(training_layout(2, 1, 1), 1, 1));
  CHECK_FALSE(own(training_layout(1, 1, 1, 3), 1, 1));
  CHECK(own(training_layout(2, 1, 2), 2, 2));
  CHECK(own(training_layout(2, 2, 1, 2), 2, 1));
  CHECK_FALSE(own(training_layout(2, 1, 2, 3), 2, 2));
  CHECK_FALSE(own(training_layout(2, 1, 2), 2, 1));
  CHECK_FALSE(own(training_layout(2, 1, 2), 1, 2));
  ParallelDims turned = training_layout(1, 1, 2);
  turned.vp = 2;
  CHECK_FALSE(own(turned, 1, 2));
}

TEST_CASE("a layout that cannot draw is refused with its numbers and what would do") {
  const ModelShape shape = four_heads();
  CHECK(drawing_layout_problems(drawing_by(1, 1), &shape, training_layout(3, 1, 1)).empty());
  CHECK(drawing_layout_problems(drawing_by(4, 1), &shape, training_layout(2, 2, 1)).empty());
  const auto one = drawing_layout_problems(drawing_by(2, 2), nullptr, training_layout(2, 3, 1));
  REQUIRE(one.size() == 1);
  CHECK(one[0].what ==
        "rollout.tp(2) * rollout.pp(2) = 4 ranks draw together, and a replica has tp(2) * cp(3) * pp(1) "
        "= 6");
  CHECK(one[0].hint == "use a divisor of that, or train with a larger tp, cp or pp");
  const auto heads = drawing_layout_problems(drawing_by(3, 1), &shape, training_layout(3, 1, 1));
  REQUIRE(!heads.empty());
  CHECK(heads[0].what == "rollout.tp = 3 does not divide model.num_attention_heads = 4");
  const auto layers = drawing_layout_problems(drawing_by(1, 6), &shape, training_layout(1, 1, 6));
  REQUIRE(layers.size() == 1);
  CHECK(layers[0].what.find("rollout.pp(6)") == 0);
  CHECK(check_drawing_layout(drawing_by(1, 6), shape, training_layout(1, 1, 6)).error().code ==
        ErrorCode::invalid_input);
}

TEST_CASE("ranks that only draw are teams by themselves, whatever the layout that trains") {
  const ModelShape shape = four_heads();
  RolloutSettings rollout = drawing_by(2, 2);
  rollout.ranks = 8;
  CHECK(drawing_ranks_dims(rollout, shape).to_string() == "tp=2 pp=2 dp=2");
  CHECK(drawing_layout_problems(rollout, &shape, training_layout(1, 1, 1, 3)).empty());
  // Those that train draw so, too, where their number allows it; else each with all weights.
  CHECK(drawing_dims(rollout, shape, training_layout(2, 1, 2)).to_string() == "tp=2 pp=2");
  CHECK(drawing_dims(rollout, shape, training_layout(3, 1, 1)).to_string() == "dp=3");
  CHECK(drawing_dims(rollout, shape, training_layout(1, 1, 1, 3)).world_size() == 1);
  rollout.ranks = 6;
  const auto six = drawing_layout_problems(rollout, nullptr, training_layout(2, 1, 2));
  REQUIRE(six.size() == 1);
  CHECK(six[0].what == "rollout.tp(2) * rollout.pp(2) = 4 ranks draw together, and rollout.ranks = 6");
  CHECK(six[0].hint == "use a multiple of that: rollout.ranks = 8");
  rollout.ranks = 3, rollout.tp = 3, rollout.pp = 1;
  const auto heads = drawing_layout_problems(rollout, &shape, training_layout(1, 1, 1));
  REQUIRE(!heads.empty());
  CHECK(heads[0].what == "rollout.tp = 3 does not divide model.num_attention_heads = 4");
}

TEST_CASE("ranks that draw together draw ahead only where they do nothing else") {
  AlignSettings s;
  s.method = "grpo", s.reward.kind = "exact", s.rollout.tp = 2;
  CHECK(check_alignment(s).ok());
  s.rollout.ahead = true;
  CHECK(check_alignment(s).error().message().find("rollout.tp = 2 with rollout.ahead") != std::string::npos);
  s.rollout.ranks = 2;
  CHECK(check_alignment(s).ok());
}

}  // namespace drawing_layout_test

}  // namespace
}  // namespace longhaul
