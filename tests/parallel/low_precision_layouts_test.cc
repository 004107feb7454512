// One loss curve for every layout, in low precision, too. Sums of several ranks round otherwise in their last bits, and
// a value in the middle between two numbers of a format may then go the other way, by a part in a thousand of itself: a
// curve follows that of one rank to 1e-8 until such a value comes, with 6e-5 of the loss, and to 1e-3 after some more.
// A scale or a block that is another in a layout shows at once, tenfold (the last test).
#include <doctest/doctest.h>

#include "contracts/settings/training/low_precision.h"
#include "tests/parallel/thorough.h"
#include "tests/parallel/training_on_ranks.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

constexpr int low_steps = 8;
constexpr int early = 4;  // of which the last one at least is computed in low precision
constexpr double early_tolerance = 2e-4, tolerance = 2e-3;

// Whole blocks of 32 on each of two ranks.
SetupOptions options_of(const std::string& recipe) {
  SetupOptions options;
  ModelShape& shape = options.shape;
  shape.hidden_size = 64, shape.head_dim = 32, shape.num_attention_heads = 2, shape.num_key_value_heads = 2;
  shape.intermediate_size = 64;
  options.low_precision.recipe = recipe;
  options.low_precision.check_every_steps = 3, options.low_precision.amax_history = 3;
  options.low_precision.flushed_max = 1;  // MXFP4 flushes much
  options.adam_eps = 1e-3;                // the update follows the gradient, not the signs of what is near zero
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
  if (!thorough) return {all[3], all[4]};  // every kind of message but cp's, which parallel_context looks at
  return all;
}

// Scales of a tensor are agreed upon between ranks, those of a block are not: one recipe of each has all their
// messages.
std::vector<const char*> recipes() {
  if (!thorough) return {"delayed", "mxfp8"};
  return {"delayed", "mxfp8", "mxfp6", "mxfp4", "current"};
}

}  // namespace

TEST_CASE("every layout gives the losses of one rank in low precision") {
  for (const char* recipe : recipes()) {
    const SetupOptions options = options_of(recipe);
    const RankRun one = train_one_rank(low_steps, DType::f32, options);
    REQUIRE(one.status.ok());
    for (const ParallelDims& dims : layouts()) {
      // Sixteen tokens: a part of a sequence is no whole block.
      if (!check_low_precision(options.low_precision, options.shape, dims, 16).ok()) continue;
      const std::vector<RankRun> ranks = train_on_threads(dims, low_steps, DType::f32, {}, options);
      for (const RankRun& rank : ranks) {
        CAPTURE(recipe);
        CAPTURE(dims.to_string());
        REQUIRE(rank.status.ok());
        const auto first = [](const std::vector<double>& all) { return std::vector(all.begin(), all.begin() + early); };
        CHECK(worst_relative(first(one.losses), first(rank.losses)) < early_tolerance);
        CHECK(worst_relative(one.losses, rank.losses) < tolerance);
        CHECK(rank.losses == ranks.front().losses);
      }
    }
  }
}

TEST_CASE("interleaved stages and recomputation change nothing") {
  SetupOptions options = options_of("delayed");
  options.shape.num_hidden_layers = 4;
  const RankRun one = train_one_rank(low_steps, DType::f32, options);
  options.pipeline.schedule = "interleaved";
  options.recompute.block = options.recompute.norms = options.recompute.attention = true;
  options.recompute.feed_forward = options.recompute.activation = true;
  ParallelDims dims;
  dims.pp = 2, dims.vp = 2;
  const std::vector<RankRun> ranks = train_on_threads(dims, low_steps, DType::f32, {}, options);
  for (const RankRun& rank : ranks) {
    CAPTURE(rank.status.ok() ? "" : rank.status.error().message());
    REQUIRE(rank.status.ok());
    CHECK(worst_relative(one.losses, rank.losses) < tolerance);
  }
}

TEST_CASE("a scale that ranks do not agree on is seen") {
  SetupOptions options = options_of("delayed");
  options.low_precision.check_every_steps = 0;  // it would see what saturates, and keep the layers out
  const RankRun one = train_one_rank(low_steps, DType::f32, options);
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
  const std::vector<RankRun> ranks = train_on_threads(dims, low_steps, DType::f32, spoil, options);
  CHECK(worst_relative(one.losses, ranks.front().losses) > 5 * tolerance);
}
