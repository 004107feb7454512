// One loss curve for every layout in low precision, too. Sums of several ranks round otherwise in their last bits, and
// a value in the middle between two numbers of a format may then go the other way: the curves are held to 1e-3, where
// those in f32 are to 1e-5; a scale or a block of another layout shows as ten times that (the last test).
#include <doctest/doctest.h>

#include "contracts/settings/low_precision.h"
#include "tests/parallel/training_on_ranks.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

constexpr int steps = 8;
constexpr double tolerance = 1e-3;

// Whole blocks of 32 on each of two ranks.
SetupOptions options_of(const std::string& recipe) {
  SetupOptions options;
  ModelShape& shape = options.shape;
  shape.hidden_size = 64, shape.head_dim = 32, shape.num_attention_heads = 2, shape.num_key_value_heads = 2;
  shape.intermediate_size = 64;
  options.low_precision.recipe = recipe;
  options.low_precision.check_every_steps = 3, options.low_precision.amax_history = 3;
  return options;
}

std::vector<ParallelDims> layouts() {
  std::vector<ParallelDims> all(7);
  all[0].dp_replicate = 4;
  all[1].tp = 2;
  all[2].tp = 2, all[2].sp = true;
  all[3].pp = 2;
  all[4].tp = 2, all[4].sp = true, all[4].dp_shard = 2, all[4].zero = 1;
  all[5].dp_shard = 2, all[5].zero = 3;
  all[6].cp = 2;
  return all;
}

}  // namespace

TEST_CASE("every layout gives the losses of one rank in low precision") {
  for (const char* recipe : {"delayed", "mxfp8", "mxfp6", "mxfp4", "current"}) {
    const SetupOptions options = options_of(recipe);
    const RankRun one = train_one_rank(steps, DType::f32, options);
    REQUIRE(one.status.ok());
    for (const ParallelDims& dims : layouts()) {
      // Sixteen tokens: a part of a sequence is no whole block.
      if (!check_low_precision(options.low_precision, options.shape, dims, 16).ok()) continue;
      const std::vector<RankRun> ranks = train_on_threads(dims, steps, DType::f32, {}, options);
      for (const RankRun& rank : ranks) {
        CAPTURE(recipe);
        CAPTURE(dims.to_string());
        REQUIRE(rank.status.ok());
        CHECK(worst_relative(one.losses, rank.losses) < tolerance);
        CHECK(rank.losses == ranks.front().losses);
      }
    }
  }
}

TEST_CASE("interleaved stages and recomputation change nothing") {
  SetupOptions options = options_of("delayed");
  options.shape.num_hidden_layers = 4;
  const RankRun one = train_one_rank(steps, DType::f32, options);
  options.pipeline.schedule = "interleaved";
  options.recompute.block = options.recompute.norms = options.recompute.attention = true;
  options.recompute.feed_forward = options.recompute.activation = true;
  ParallelDims dims;
  dims.pp = 2, dims.vp = 2;
  const std::vector<RankRun> ranks = train_on_threads(dims, steps, DType::f32, {}, options);
  for (const RankRun& rank : ranks) {
    CAPTURE(rank.status.ok() ? "" : rank.status.error().message());
    REQUIRE(rank.status.ok());
    CHECK(worst_relative(one.losses, rank.losses) < tolerance);
  }
}

TEST_CASE("a scale that ranks do not agree on is seen") {
  const SetupOptions options = options_of("delayed");
  const RankRun one = train_one_rank(steps, DType::f32, options);
  ParallelDims dims;
  dims.tp = 2;
  const auto spoil = [](int rank, TrainingSetup& setup, int) {
    if (rank == 0) return;
    Value state = setup.trainer.low_precision_state();
    Value* history = state.find("history");
    if (!history) return;
    for (Value& entries : history->as_array())
      for (std::size_t at = 1; at < entries.as_array().size(); at += 2)
        entries.as_array()[at] = Value(entries.as_array()[at].as_number() / 64);  // everything saturates
    (void)setup.trainer.restore_low_precision(state).ok();
  };
  const std::vector<RankRun> ranks = train_on_threads(dims, steps, DType::f32, spoil, options);
  CHECK(worst_relative(one.losses, ranks.front().losses) > 10 * tolerance);
}
