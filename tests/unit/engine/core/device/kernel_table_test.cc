#include "engine/core/device/kernel_table.h"

#include <doctest/doctest.h>

#include "engine/core/tensor/trace.h"

using namespace longhaul;

TEST_CASE("kernels are summed by name, and NCCL's are no computation of this rank") {
  KernelTable table;
  table.add("rmsnorm_forward", 300);
  table.add("rmsnorm_forward", 200);
  table.add("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 10'000);
  table.add("gemm", 400);
  CHECK(table.compute_ns() == 900);
  CHECK(table.communication_ns() == 10'000);
  const std::vector<KernelTime> longest = table.longest(2);
  REQUIRE(longest.size() == 2);
  CHECK(is_communication_kernel(longest[0].name));
  CHECK(longest[1].name == "rmsnorm_forward");
  CHECK(longest[1].count == 2);
  CHECK(longest[1].ns == 500);
  CHECK(table.longest(10).size() == 3);

  KernelTable more;
  more.add("gemm", 200, 2);
  more.merge(table);
  CHECK(more.compute_ns() == 1100);
  CHECK(more.longest(10)[1].name == "gemm");
  CHECK(more.longest(10)[1].count == 3);
  more.clear();
  CHECK(more.empty());
  CHECK(more.compute_ns() == 0);
}

TEST_CASE("a profiler hears of ranges in the order in which they lie, whether or not a trace is recorded") {
  struct Marks final : RangeMarks {
    void begin(const char* name) override { heard += std::string("<") + name; }
    void end() override { heard += ">"; }
    std::string heard;
  } marks;
  const SystemClock clock;
  Trace trace(clock);
  trace.set_marks(&marks);
  {
    const TraceSpan step(&trace, "step");
    {
      const TraceSpan forward(&trace, "forward");
    }
    const TraceSpan update(&trace, "update");
  }
  {
    const TraceSpan nowhere(nullptr, "nowhere");
  }
  CHECK(marks.heard == "<step<forward><update>>");
  CHECK(trace.spans() == 0);
}
