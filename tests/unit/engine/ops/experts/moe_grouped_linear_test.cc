#include "engine/ops/experts/moe_grouped_linear.h"

#include "tests/unit/engine/ops/moe_check.h"

using namespace longhaul;
using namespace longhaul::op_check;
using namespace longhaul::moe_check;

namespace {

struct GroupedWant {
  Vector y, dx, dweights;
};
GroupedWant grouped_reference(GroupedLinearShape s, const std::vector<std::int64_t>& offsets, const Vector& x,
                              const Vector& w, const Vector& dy) {
  GroupedWant want;
  for (std::size_t e = 0; e + 1 < offsets.size(); ++e) {
    const Index n = offsets[e + 1] - offsets[e], in = s.in, out = s.out;
    const auto cut = [](const Vector& v, Index begin, Index size) {
      return Vector(v.begin() + begin, v.begin() + begin + size);
    };
    const Vector xe = cut(x, offsets[e] * in, n * in), de = cut(dy, offsets[e] * out, n * out);
    const Vector we = cut(w, static_cast<Index>(e) * in * out, in * out);
    const Vector y = reference::linear(n, in, out, xe, we, {});
    const auto g = reference::linear_backward(n, in, out, de, xe, we);
    want.y.insert(want.y.end(), y.begin(), y.end());
    want.dx.insert(want.dx.end(), g.dx.begin(), g.dx.end());
    want.dweights.insert(want.dweights.end(), g.dweight.begin(), g.dweight.end());
  }
  return want;
}

struct GroupedCase {
  GroupedLinearShape shape;
  std::vector<std::int64_t> offsets;
  Index rows() const { return offsets.back(); }
};
GroupedCase grouped_case(Index in, Index out, const std::vector<Index>& rows) {
  GroupedCase c{{static_cast<Index>(rows.size()), in, out}, {0}};
  for (Index n : rows) c.offsets.push_back(c.offsets.back() + n);
  return c;
}

void check_grouped(const ComputeContext& context, const GroupedCase& c, DType dtype, DType y_type, std::uint64_t seed) {
  const GroupedLinearShape s = c.shape;
  const Values x = random_values(dtype, c.rows() * s.in, seed),
               w = random_values(dtype, s.experts * s.in * s.out, seed + 1);
  const Values dy = random_values(dtype, c.rows() * s.out, seed + 2);
  Values dw = random_values(DType::f32, s.experts * s.in * s.out, seed + 3);
  GroupedWant want = grouped_reference(s, c.offsets, x.exact, w.exact, dy.exact);
  Tensor y(y_type, {c.rows(), s.out}), dx(dtype, {c.rows(), s.in});
  grouped_linear_forward(context, s, c.offsets, x, w, y);
  check_close("y", y, want.y, tolerance(y_type));
  grouped_linear_backward_input(context, s, c.offsets, dy, w, dx);
  check_close("dx", dx, want.dx, tolerance(dtype));
  Vector added = want.dweights;
  for (std::size_t i = 0; i < added.size(); ++i) added[i] += dw.exact[i];
  grouped_linear_backward_weight(context, s, c.offsets, dy, x, dw);
  check_close("dw accumulated", dw.tensor, added, tolerance(DType::f32));
  grouped_linear_backward_weight(context, s, c.offsets, dy, x, dw, false);
  check_close("dw written", dw.tensor, want.dweights, tolerance(DType::f32));
  for (std::size_t e = 0; e + 1 < c.offsets.size(); ++e) {
    if (c.offsets[e] != c.offsets[e + 1]) continue;
    for (Index i = 0; i < s.in * s.out; ++i) {
      REQUIRE(dw.tensor.span<float>()[e * static_cast<std::size_t>(s.in * s.out) + static_cast<std::size_t>(i)] ==
              0.0F);
    }
  }
}

}  // namespace

TEST_CASE("grouped linear layers follow the reference for all levels and types, with empty and uneven experts") {
  std::uint64_t seed = 8000;
  for (const Backend& on : kBackends) {
    const OpContext context(2, on);
    for (const auto& [dtype, y_type] :
         {std::pair{DType::f32, DType::f32}, {DType::bf16, DType::bf16}, {DType::bf16, DType::f32}}) {
      ++seed;
      INFO(case_text("grouped", y_type, on, seed));
      check_grouped(context, grouped_case(37, 51, {0, 5, 1, 0, 17, 16, 40, 0}), dtype, y_type, seed);
      check_grouped(context, grouped_case(40, 24, {0, 5, 1, 0, 17, 16, 40, 0}), dtype, y_type, seed);
      check_grouped(context, grouped_case(32, 20, {0, 0}), dtype, y_type, seed);
      check_grouped(context, grouped_case(1, 3, {3, 9}), dtype, y_type, seed);
    }
  }
}

TEST_CASE("grouped linear layers of several tiles: of rows, of columns, and of what is summed over") {
  const Backend& on = kBackends[std::size(kBackends) - 1];  // a GPU, if any
  const OpContext context(1, on);
  std::vector<Index> many(70, 0);  // more experts than a warp has threads
  many[3] = 2, many[40] = 9, many[69] = 1;
  for (DType dtype : kTypes) {
    INFO(dtype_name(dtype));
    check_grouped(context, grouped_case(136, 144, {140, 0, 3, 129}), dtype, dtype, 8310);
    check_grouped(context, grouped_case(69, 67, {66, 0, 3, 64}), dtype, dtype, 8320);
    check_grouped(context, grouped_case(16, 8, many), dtype, dtype, 8330);
  }
}

TEST_CASE("grouped linear layers of many rows and many columns: whole pieces, the rest, and blocks of columns") {
  const ComputeContext context(2);
  for (DType dtype : kTypes) {
    INFO(dtype_name(dtype));
    check_grouped(context, grouped_case(9, 11, {256, 1024 + 256 + 19, 255, 2048}), dtype, dtype, 8100);
    check_grouped(context, grouped_case(1040, 12, {3, 1, 20}), dtype, dtype, 8200);
    check_grouped(context, grouped_case(12, 1040, {3, 1, 20}), dtype, dtype, 8300);
  }
}

TEST_CASE("random grouped linear layers") {
  for (std::uint64_t seed = 8400; seed < 8430; ++seed) {
    CAPTURE(seed);
    PhiloxSequence draw(seed);
    std::vector<Index> rows;
    for (std::uint64_t e = 1 + draw.next_below(9); e > 0; --e) rows.push_back(static_cast<Index>(draw.next_below(70)));
    const ComputeContext context(1 + static_cast<int>(draw.next_below(3)));
    const GroupedCase c =
        grouped_case(1 + static_cast<Index>(draw.next_below(60)), 1 + static_cast<Index>(draw.next_below(60)), rows);
    check_grouped(context, c, seed % 2 == 0 ? DType::f32 : DType::bf16, seed % 2 == 0 ? DType::f32 : DType::bf16, seed);
  }
}

TEST_CASE("grouped linear layers have the same bits for every number of threads") {
  const ComputeContext one(1), three(3);
  const GroupedCase c = grouped_case(64, 96, {300, 7, 0, 45, 128});
  for (DType dtype : kTypes) {
    const Values x = random_values(dtype, c.rows() * 64, 1), w = random_values(dtype, 5 * 64 * 96, 2);
    const Values dy = random_values(dtype, c.rows() * 96, 3);
    Vector results[2];
    for (const ComputeContext* context : {&one, &three}) {
      Tensor y(dtype, {c.rows(), 96}), dx(dtype, {c.rows(), 64}), dw(DType::f32, {5, 96, 64});
      grouped_linear_forward(*context, c.shape, c.offsets, x, w, y);
      grouped_linear_backward_input(*context, c.shape, c.offsets, dy, w, dx);
      grouped_linear_backward_weight(*context, c.shape, c.offsets, dy, x, dw);
      for (const Tensor* tensor : {&y, &dx, &dw}) {
        const Vector values = exact_of(*tensor);
        Vector& result = results[context == &one ? 0 : 1];
        result.insert(result.end(), values.begin(), values.end());
      }
    }
    CHECK(results[0] == results[1]);
  }
}
