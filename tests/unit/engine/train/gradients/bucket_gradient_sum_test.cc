#include "engine/train/gradients/bucket_gradient_sum.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/unit/engine/train/training_setup.h"

using namespace longhaul;
using namespace longhaul::test;

TEST_CASE("a backward that writes every unit before it ends one finds memory for all of them") {
  MeshPlace place;
  place.dims.zero = 2;
  const ParameterLayout layout(training_shape(6), place);
  REQUIRE(layout.units().size() > 6);
  const ComputeContext context(1);
  Mesh alone;
  ContributionGuard guard(false, context);
  MemoryAccount account;
  BucketGradientSum sum(layout, alone, guard, {}, &account);
  const std::int64_t planned = account.bytes_now;
  for (const float value : {2.0F, 3.0F}) {
    sum.begin(context, 1);
    const GradientTarget target = sum.target(context, 0);
    for (const FlatParameter& p : layout.parameters())
      std::ranges::fill(target.vector(p.begin, p.end - p.begin), value);
    for (const FlatParameter& p : layout.parameters()) target.say_ready(p.begin, p.end);
    const Result<std::span<float>> all = sum.finish(context);
    REQUIRE(all.ok());
    for (const FlatParameter& p : layout.parameters()) {
      CAPTURE(p.spec.name);
      CHECK(std::ranges::all_of(part_of(*all, {p.begin, p.end}), [&](float x) { return x == value; }));
    }
  }
  CHECK(account.bytes_now > planned);
}
