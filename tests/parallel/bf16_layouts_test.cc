// Trainings in bf16 over several ranks end where that of one rank does, up to what rounding explains: a loss says
// little of it, so each parameter's distance is held against the way that it went.
#include <doctest/doctest.h>

#include <cmath>

#include "base/text/text.h"
#include "tests/parallel/thorough.h"
#include "tests/parallel/training_on_ranks.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {
namespace bf16_layouts {

constexpr int steps = thorough ? 20 : 4;
constexpr double loss_bar = 2e-3;  // rounding: 3e-4
// Parts of its way by which a parameter may be off. Rounding takes 0.006 of it, weights that are one step old half of
// it.
constexpr double way_bar = 0.05;

using BeforeStep = std::function<void(int rank, TrainingSetup&, int step)>;

std::vector<float> beginning() {
  const TrainingSetup setup(16, steps, 2, nullptr, DType::bf16, 32);
  return {setup.store.masters().begin(), setup.store.masters().end()};
}

struct Distance {
  double part = 0;  // of the way
  std::string of;   // the parameter
};
Distance farthest(const std::vector<float>& begin, const RankRun& one, const RankRun& other) {
  Distance worst;
  const auto length = [](const std::vector<float>& a, const std::vector<float>& b, const FlatParameter& p) {
    double sum = 0;
    for (auto i = static_cast<std::size_t>(p.begin); i < static_cast<std::size_t>(p.end); ++i)
      sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    return std::sqrt(sum);
  };
  const ParameterLayout layout(training_shape());
  REQUIRE(one.weights.size() == begin.size());
  REQUIRE(other.weights.size() == begin.size());
  for (const FlatParameter& p : layout.parameters()) {
    const double part = length(one.weights, other.weights, p) / length(begin, one.weights, p);
    if (part > worst.part) worst = {part, p.spec.name};
  }
  return worst;
}

ParallelDims dims_of(int tp, bool sp, int pp, int shard = 1, int zero = 0) {
  ParallelDims d;
  d.tp = tp, d.sp = sp, d.pp = pp, d.dp_shard = shard, d.zero = zero;
  return d;
}

RankRun first_of(const ParallelDims& dims, const BeforeStep& before = {}) {
  RankRun run = train_on_threads(dims, steps, DType::bf16, before)[0];
  REQUIRE_MESSAGE(run.status.ok(), (run.status.ok() ? "" : run.status.error().message()));
  return run;
}

}  // namespace bf16_layouts
}  // namespace

TEST_CASE("bf16: every layout ends where one rank does, as a part of the way that each parameter went") {
  using namespace bf16_layouts;
  const std::vector<float> begin = beginning();
  const RankRun one = train_one_rank(steps, DType::bf16);
  double worst_loss = 0, worst_way = 0;
  for (const ParallelDims& dims : {dims_of(2, false, 1), dims_of(2, true, 1), dims_of(1, false, 2), dims_of(2, true, 2),
                                   dims_of(1, false, 1, 2, 1), dims_of(1, false, 1, 2, 2), dims_of(1, false, 1, 2, 3),
                                   dims_of(2, false, 1, 2, 3)}) {
    CAPTURE(dims.to_string());
    const RankRun run = first_of(dims);
    const Distance far = farthest(begin, one, run);
    CAPTURE(far.of);
    const double loss = worst_relative(one.losses, run.losses);
    CHECK(far.part <= way_bar);
    CHECK(loss <= loss_bar);
    worst_loss = std::max(worst_loss, loss), worst_way = std::max(worst_way, far.part);
    MESSAGE(dims.to_string() << ": losses differ by " << loss << ", " << far.of << " by " << far.part << " of its way");
  }
  MESSAGE("worst: losses " << worst_loss << ", ways " << worst_way);
}

TEST_CASE("bf16: weights that are one step old, and norms whose gradient is lost, turn the comparison red") {
  using namespace bf16_layouts;
  const std::vector<float> begin = beginning();
  const RankRun one = train_one_rank(steps, DType::bf16);
  std::vector<std::vector<float>> before(2);
  const auto compute_with_old_copy = [&](int rank, TrainingSetup& setup, int) {
    const std::span<float> masters = setup.store.masters();
    const std::vector<float> now(masters.begin(), masters.end());
    std::vector<float>& old = before[static_cast<std::size_t>(rank)];
    if (!old.empty()) {
      std::ranges::copy(old, masters.begin());
      setup.store.refresh_compute_copy(setup.context);
      std::ranges::copy(now, masters.begin());
    }
    old = now;
  };
  const auto keep_norms = [&](int, TrainingSetup& setup, int) {
    for (const FlatParameter& p : setup.store.layout().parameters())
      if (p.spec.name.ends_with("norm.weight"))
        for (std::int64_t i = p.begin; i < p.end; ++i) setup.store.masters()[static_cast<std::size_t>(i)] = 1.0F;
    setup.store.refresh_compute_copy(setup.context);
  };
  const Distance old_copy = farthest(begin, one, first_of(dims_of(2, false, 1), compute_with_old_copy));
  MESSAGE("one step old: " << old_copy.of << " by " << old_copy.part << " of its way");
  CHECK(old_copy.part > way_bar);
  const Distance no_norms = farthest(begin, one, first_of(dims_of(2, true, 1), keep_norms));
  MESSAGE("norms without gradient: " << no_norms.of << " by " << no_norms.part << " of its way");
  CHECK(no_norms.part > way_bar);
}
