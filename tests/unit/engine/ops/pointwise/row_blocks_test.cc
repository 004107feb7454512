#include "engine/ops/pointwise/row_blocks.h"

#include <doctest/doctest.h>

#include "tests/unit/engine/ops/op_check.h"

namespace longhaul {

using namespace op_check;

namespace {

struct Sizes {
  std::int64_t rows, columns, from_stride, to_stride;
  std::int64_t from_begin = 0, to_begin = 0;
};
// Odd ones; and such as a GPU copies by 16 bytes, where the first element lies at a multiple of that or not.
const Sizes all_sizes[] = {{5, 7, 11, 9}, {3, 16, 32, 24}, {4, 16, 32, 24, 8, 16}, {4, 16, 32, 24, 1, 3}, {1, 1, 1, 1}};

float value_of(const Values& x, std::int64_t i) {
  return static_cast<float>(x.exact[static_cast<std::size_t>(i)]);
}

}  // namespace

TEST_CASE("rows are copied between matrices of other widths and types, and nothing beside them is touched") {
  for (const Backend& on : kBackends)
    for (const Sizes& s : all_sizes)
      for (const DType from_type : kTypes)
        for (const DType to_type : kTypes) {
          const OpContext context(2, on);
          CAPTURE(case_text(format("rows {} of {}", s.rows, s.columns), to_type, on, 1));
          const Values from = random_values(from_type, s.from_begin + s.rows * s.from_stride, 1);
          Values to = random_values(to_type, s.to_begin + s.rows * s.to_stride, 2);
          Vector want = to.exact;
          for (std::int64_t r = 0; r < s.rows; ++r)
            for (std::int64_t c = 0; c < s.columns; ++c) {
              const float x = value_of(from, s.from_begin + r * s.from_stride + c);
              want[static_cast<std::size_t>(s.to_begin + r * s.to_stride + c)] =
                  to_type == DType::f32 ? static_cast<double>(x) : static_cast<double>(static_cast<float>(bf16(x)));
            }
          copy_rows(context, {s.rows, s.columns, s.from_stride, s.to_stride},
                    elements_from(ConstView(from), s.from_begin), elements_from(View(to), s.to_begin));
          CHECK(exact_of(to.tensor) == want);
        }
}

TEST_CASE("rows are added to rows of f32") {
  for (const Backend& on : kBackends)
    for (const Sizes& s : all_sizes)
      for (const DType from_type : kTypes) {
        const OpContext context(2, on);
        CAPTURE(case_text(format("rows {} of {}", s.rows, s.columns), from_type, on, 3));
        const Values from = random_values(from_type, s.from_begin + s.rows * s.from_stride, 3);
        Values to = random_values(DType::f32, s.to_begin + s.rows * s.to_stride, 4);
        Vector want = to.exact;
        for (std::int64_t r = 0; r < s.rows; ++r)
          for (std::int64_t c = 0; c < s.columns; ++c) {
            double& sum = want[static_cast<std::size_t>(s.to_begin + r * s.to_stride + c)];
            sum = static_cast<double>(static_cast<float>(sum) + value_of(from, s.from_begin + r * s.from_stride + c));
          }
        add_rows(context, {s.rows, s.columns, s.from_stride, s.to_stride}, elements_from(ConstView(from), s.from_begin),
                 to.tensor.span<float>().subspan(static_cast<std::size_t>(s.to_begin)));
        CHECK(exact_of(to.tensor) == want);
      }
}

}  // namespace longhaul
