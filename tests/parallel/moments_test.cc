// AdamW's moments in bf16, rounded to nearest or stochastically: the same in every layout.
#include <doctest/doctest.h>

#include "tests/parallel/thorough.h"
#include "tests/parallel/training_on_ranks.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

SetupOptions with_moments(const std::string& moments, const std::string& rounding) {
  SetupOptions options;
  options.moments = moments, options.rounding = rounding;
  return options;
}

ParallelDims moments_layout(int tp, int pp, int replicate, int shard = 1, int zero = 0) {
  ParallelDims dims;
  dims.tp = tp, dims.sp = tp > 1, dims.pp = pp, dims.dp_replicate = replicate, dims.dp_shard = shard, dims.zero = zero;
  return dims;
}

}  // namespace

TEST_CASE("bf16 moments: replicas and ZeRO 1 change no bit, other layouts follow one rank") {
  constexpr int steps = thorough ? 12 : 3;
  for (const auto& [moments, rounding] :
       {std::pair<std::string, std::string>{"bf16", "stochastic"}, {"bf16", "nearest"}, {"mixed", "stochastic"}}) {
    CAPTURE(moments);
    CAPTURE(rounding);
    if (!thorough && (moments != "bf16" || rounding != "stochastic")) continue;
    const SetupOptions options = with_moments(moments, rounding);
    const RankRun one = train_one_rank(steps, DType::f32, options);
    REQUIRE(one.losses.size() == steps);
    for (const ParallelDims& dims :
         {moments_layout(1, 1, 2), moments_layout(1, 1, 1, 2, 1), moments_layout(1, 1, 2, 2, 1)})
      for (const RankRun& run : train_on_threads(dims, steps, DType::f32, {}, options)) {
        CAPTURE(dims.to_string());
        CHECK(run.losses == one.losses);
        if (!run.weights.empty()) CHECK(run.weights == one.weights);
      }
    for (const ParallelDims& dims : {moments_layout(2, 1, 1), moments_layout(2, 2, 1), moments_layout(2, 1, 1, 2, 3)})
      for (const RankRun& run : train_on_threads(dims, steps, DType::f32, {}, options)) {
        CAPTURE(dims.to_string());
        REQUIRE(run.status.ok());
        CHECK(worst_relative(one.losses, run.losses) <= 1e-5);
      }
  }
}

TEST_CASE("stochastic rounding is another draw in every step, by the seed") {
  const SetupOptions options = with_moments("bf16", "stochastic");
  const RankRun one = train_one_rank(6, DType::f32, options);
  CHECK(one.losses == train_one_rank(6, DType::f32, options).losses);
  CHECK(one.losses != train_one_rank(6, DType::f32, with_moments("bf16", "nearest")).losses);
}

TEST_CASE("with bf16 moments the loss curve stays close to that with f32 moments") {
  if (!thorough) return;
  constexpr int steps = 60;
  const RankRun wide = train_one_rank(steps, DType::f32);
  REQUIRE(wide.losses.size() == steps);
  REQUIRE(wide.losses.back() < 0.7 * wide.losses.front());  // it learns
  for (const auto& [moments, rounding] :
       {std::pair<std::string, std::string>{"bf16", "stochastic"}, {"bf16", "nearest"}, {"mixed", "stochastic"}}) {
    CAPTURE(moments);
    CAPTURE(rounding);
    const RankRun narrow = train_one_rank(steps, DType::f32, with_moments(moments, rounding));
    CHECK(worst_relative(wide.losses, narrow.losses) <= 5e-3);
  }
}
