// What trainings are made of beside the model (a growing batch, dropout, documents packed into rows): the same
// mathematics in every layout.
#include <doctest/doctest.h>

#include "tests/parallel/thorough.h"
#include "tests/parallel/training_on_ranks.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {
// Under ThreadSanitizer, which looks for races and not at curves, a few steps of one model.
constexpr int practice_steps = thorough ? 10 : 3;

ParallelDims with_context(ParallelDims dims, int cp) {
  dims.cp = cp;
  return dims;
}
ParallelDims practice_layout(int tp, bool sp, int pp, int replicate, int shard = 1, int zero = 0) {
  ParallelDims dims;
  dims.tp = tp, dims.sp = sp, dims.pp = pp, dims.dp_replicate = replicate, dims.dp_shard = shard, dims.zero = zero;
  return dims;
}

void check_follows(const RankRun& one, const std::vector<RankRun>& runs, double bar) {
  for (const RankRun& run : runs) {
    REQUIRE_MESSAGE(run.status.ok(), (run.status.ok() ? "" : run.status.error().message()));
    CHECK(worst_relative(one.losses, run.losses) <= bar);
    CHECK(worst_relative(one.norms, run.norms) <= 10 * bar);
  }
}
}  // namespace

TEST_CASE("while the batch grows, dp changes no bit and the other axes follow the curve of one rank") {
  SetupOptions options;
  options.rampup = {4, 4, 40};  // 4, 4, 4, 8, 8, 8, 12 ... of 16: 2 to 8 micro-batches, 6 among them
  const RankRun one = train_one_rank(practice_steps, DType::f32, options);
  REQUIRE(one.losses.size() == practice_steps);
  for (const int dp : {2}) {
    for (const RankRun& run :
         train_on_threads(practice_layout(1, false, 1, dp), practice_steps, DType::f32, {}, options)) {
      CHECK(run.losses == one.losses);
      CHECK(run.norms == one.norms);
      CHECK(run.weights == one.weights);
    }
  }
  for (const ParallelDims& dims : {practice_layout(2, true, 1, 1), practice_layout(1, false, 2, 1),
                                   practice_layout(1, false, 1, 1, 2, 1), practice_layout(1, false, 1, 1, 2, 3)}) {
    CAPTURE(dims.to_string());
    check_follows(one, train_on_threads(dims, practice_steps, DType::f32, {}, options), 1e-5);
  }
  options.pipeline.schedule = "interleaved", options.shape = training_shape(4);
  const RankRun deep = train_one_rank(practice_steps, DType::f32, options);
  ParallelDims interleaved = practice_layout(1, false, 2, 1);
  interleaved.vp = 2;
  check_follows(deep, train_on_threads(interleaved, practice_steps, DType::f32, {}, options), 1e-5);
}

TEST_CASE("dropout: one mask for every layout, another in every step, none in evaluation") {
  SetupOptions options;
  options.dropout = 0.2;
  for (const bool gpt2 : {false, true}) {
    CAPTURE(gpt2);
    if (gpt2 && !thorough) continue;
    if (gpt2) options.shape = training_gpt2_shape();
    const RankRun one = train_one_rank(practice_steps, DType::f32, options);
    REQUIRE(one.losses.size() == practice_steps);
    SetupOptions without = options;
    without.dropout = 0;
    CHECK(worst_relative(one.losses, train_one_rank(practice_steps, DType::f32, without).losses) > 1e-3);
    for (const RankRun& run :
         train_on_threads(practice_layout(1, false, 1, 2), practice_steps, DType::f32, {}, options))
      CHECK(run.losses == one.losses);
    std::vector<ParallelDims> layouts = {practice_layout(2, true, 1, 1), practice_layout(1, false, 2, 2),
                                         with_context(practice_layout(1, false, 1, 1), 2)};
    if (!gpt2 && thorough)
      layouts.insert(layouts.end(), {practice_layout(2, false, 1, 1), practice_layout(2, true, 2, 1),
                                     practice_layout(1, false, 1, 1, 2, 2), practice_layout(2, true, 1, 1, 2, 3),
                                     with_context(practice_layout(2, true, 2, 1), 2)});
    for (const ParallelDims& dims : layouts) {
      CAPTURE(dims.to_string());
      check_follows(one, train_on_threads(dims, practice_steps, DType::f32, {}, options), 1e-5);
    }
  }
}

TEST_CASE("documents that share a row: every layout follows the curve of one rank, with dropout and a growing batch") {
  SetupOptions options;
  options.packed = true, options.dropout = 0.1, options.rampup = {4, 4, 40};
  const RankRun one = train_one_rank(practice_steps, DType::f32, options);
  REQUIRE(one.losses.size() == practice_steps);
  SetupOptions together = options;
  together.packed = false;
  CHECK(worst_relative(one.losses, train_one_rank(practice_steps, DType::f32, together).losses) > 1e-4);
  for (const ParallelDims& dims : {practice_layout(1, false, 1, 2), practice_layout(2, true, 1, 2),
                                   practice_layout(2, false, 2, 1), practice_layout(1, false, 1, 1, 2, 3)}) {
    CAPTURE(dims.to_string());
    check_follows(one, train_on_threads(dims, practice_steps, DType::f32, {}, options), 1e-5);
  }
  SetupOptions zero_bubble = options;
  zero_bubble.pipeline.schedule = "zb-h1";
  check_follows(one, train_on_threads(practice_layout(1, false, 2, 1), practice_steps, DType::f32, {}, zero_bubble),
                1e-5);
}

TEST_CASE("what is computed again drops what was dropped before") {
  SetupOptions options;
  options.dropout = 0.2;
  const RankRun one = train_one_rank(practice_steps, DType::bf16, options);
  options.recompute.block = true;
  for (const RankRun& run :
       train_on_threads(practice_layout(1, false, 1, 2), practice_steps, DType::bf16, {}, options)) {
    REQUIRE(run.status.ok());
    CHECK(run.losses == one.losses);
    CHECK(run.weights == one.weights);
  }
}
