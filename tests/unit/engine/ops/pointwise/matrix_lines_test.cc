#include "engine/ops/pointwise/matrix_lines.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/unit/engine/ops/op_check.h"

namespace longhaul {

using namespace op_check;

namespace {

struct LineCase {
  std::int64_t rows, columns;
  MatrixLine line;

  std::int64_t lines() const { return line == MatrixLine::row ? rows : columns; }
  std::int64_t line_of(std::int64_t element) const {
    return line == MatrixLine::row ? element / columns : element % columns;
  }
  Shape shape() const { return Shape{rows, columns}; }
  std::string text(Backend on) const {
    return case_text(format("{} of [{}, {}]", line == MatrixLine::row ? "rows" : "columns", rows, columns), DType::f32,
                     on, 1);
  }
};

// Odd ones; rows that a GPU reads by 16 bytes; more than a block of threads has.
template <class Check>
void for_each_line_case(const Check& check) {
  for (const Backend& on : kBackends)
    for (const auto& [rows, columns] : {std::pair<Index, Index>{1, 1}, {5, 7}, {37, 64}, {3, 2100}})
      for (const MatrixLine line : {MatrixLine::row, MatrixLine::column}) {
        const LineCase one{rows, columns, line};
        CAPTURE(one.text(on));
        check(one, on);
      }
}

}  // namespace

TEST_CASE("sums of products along rows and along columns, written and added") {
  for_each_line_case([](const LineCase& c, Backend on) {
    const OpContext context(2, on);
    const Values a = random_values(DType::f32, c.rows * c.columns, 1);
    const Values b = random_values(DType::f32, c.rows * c.columns, 2);
    Values out = random_values(DType::f32, c.lines(), 3);
    Vector want(static_cast<std::size_t>(c.lines()), 0.0);
    for (Index i = 0; i < c.rows * c.columns; ++i)
      want[static_cast<std::size_t>(c.line_of(i))] +=
          a.exact[static_cast<std::size_t>(i)] * b.exact[static_cast<std::size_t>(i)];
    const ConstView left = ConstView(a).reshaped(c.shape()), right = ConstView(b).reshaped(c.shape());
    dots_of_lines(context, c.line, left, right, false, out.tensor.span<float>());
    check_close("written", out.tensor, want, tolerance(DType::f32));
    dots_of_lines(context, c.line, left, right, true, out.tensor.span<float>());
    for (double& sum : want) sum *= 2;
    check_close("added", out.tensor, want, tolerance(DType::f32));
  });
}

TEST_CASE("rows and columns times their factors, to the bit") {
  for_each_line_case([](const LineCase& c, Backend on) {
    const OpContext context(2, on);
    Values matrix = random_values(DType::f32, c.rows * c.columns, 4);
    const Values factors = random_values(DType::f32, c.lines(), 5);
    Vector want = matrix.exact;
    for (Index i = 0; i < c.rows * c.columns; ++i) {
      double& value = want[static_cast<std::size_t>(i)];
      value = static_cast<double>(static_cast<float>(value) *
                                  static_cast<float>(factors.exact[static_cast<std::size_t>(c.line_of(i))]));
    }
    scale_lines(context, c.line, ConstView(factors).span<float>(), View(matrix).reshaped(c.shape()));
    CHECK(exact_of(matrix.tensor) == want);
  });
}

TEST_CASE("numbers over the roots of others, written and added, in the place of the first too") {
  for (const Backend& on : kBackends) {
    const OpContext context(2, on);
    CAPTURE(case_text("300 numbers", DType::f32, on, 6));
    Values x = random_values(DType::f32, 300, 6), squares = random_values(DType::f32, 300, 7);
    for (float& square : squares.tensor.span<float>()) square = square * square + 0.1F;
    Tensor out(DType::f32, {300});
    Vector want;
    for (std::size_t i = 0; i < 300; ++i)
      want.push_back(x.exact[i] / std::sqrt(static_cast<double>(squares.tensor.span<float>()[i])));
    const ConstView given = x, over = squares;
    divide_by_roots(context, given.span<float>(), over.span<float>(), false, out.span<float>());
    check_close("written", out, want, tolerance(DType::f32));
    divide_by_roots(context, given.span<float>(), over.span<float>(), true, out.span<float>());
    divide_by_roots(context, given.span<float>(), over.span<float>(), false, x.tensor.span<float>());
    check_close("in place", x.tensor, want, tolerance(DType::f32));
    for (double& value : want) value *= 2;
    check_close("added", out, want, tolerance(DType::f32));
  }
}

}  // namespace longhaul
