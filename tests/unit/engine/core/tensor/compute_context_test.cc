#include "engine/core/tensor/compute_context.h"

#include <doctest/doctest.h>

#include "engine/core/tensor/parallel_for.h"

using namespace longhaul;

TEST_CASE(
    "lanes: one context of one thread per thread, with scratch of its own that is counted; alone, a lane is itself") {
  const ComputeContext three(3, CpuLevel::portable), one(1);
  three.make_lanes();
  three.make_lanes();
  for (int i = 0; i < 3; ++i) {
    CHECK(three.lane(i).threads() == 1);
    CHECK(three.lane(i).cpu_level() == CpuLevel::portable);
    for (int j = 0; j < i; ++j) CHECK(&three.lane(i) != &three.lane(j));
  }
  parallel_chunks(three, 3, 1,
                  [&](std::int64_t, std::int64_t) { (void)three.lane(parallel_thread_index()).scratch(0, 1 << 10); });
  CHECK(three.scratch_bytes() >= 1 << 10);
  one.make_lanes();
  CHECK(&one.lane(0) == &one);
}
