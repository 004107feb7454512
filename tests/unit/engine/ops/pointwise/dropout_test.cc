// The mask is a function of what is dropped: the same however rows are cut, and exactly what the formula says.
#include "engine/ops/pointwise/dropout.h"

#include <algorithm>
#include <cmath>

#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;

namespace {

DropoutMask dropout_case() {
  DropoutMask mask;
  mask.rate = 0.3, mask.seed = 77, mask.place = 5, mask.sample = 1000, mask.length = 6;
  return mask;
}

// The header's words, one element at a time.
double kept_share(const DropoutMask& mask, std::int64_t sample, std::int64_t position, std::int64_t channel,
                  std::int64_t columns) {
  const auto threshold = static_cast<std::uint32_t>(std::lround(mask.rate * 65536));
  const Philox random{mask.seed, (1ULL << 63) + static_cast<std::uint64_t>(sample * 65536 + mask.place)};
  const auto counter = static_cast<std::uint64_t>(position * ((columns + 7) / 8) + channel / 8);
  const std::uint32_t word = random.block(counter)[static_cast<std::size_t>(channel % 8 / 2)];
  const std::uint32_t draw = channel % 2 == 0 ? word & 0xFFFF : word >> 16;
  return draw >= threshold ? 65536.0 / (65536.0 - threshold) : 0.0;
}

}  // namespace

TEST_CASE("dropout: every element is as the formula says, for rows and widths of any size") {
  for (const auto& [columns, level] : op_check::with_backends({1, 7, 8, 70, 256})) {
    const op_check::OpContext context(2, level);
    CAPTURE(columns);
    const std::int64_t rows = 24;
    const op_check::Values x = op_check::random_values(DType::f32, rows * columns, 3);
    Tensor out(DType::f32, {rows * columns});
    const DropoutMask mask = dropout_case();
    dropout(context, mask, rows, columns, x, out);
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t c = 0; c < columns; ++c) {
        const double expected = x.exact[static_cast<std::size_t>(row * columns + c)] *
                                kept_share(mask, mask.sample + row / 6, row % 6, c, columns);
        REQUIRE(static_cast<double>(out.span<float>()[static_cast<std::size_t>(row * columns + c)]) ==
                doctest::Approx(expected).epsilon(1e-6));
      }
  }
}

TEST_CASE("dropout: rows of another rank, another micro-batch or another part of a sequence have the same mask") {
  const ComputeContext context(1);
  const std::int64_t rows = 12, columns = 40;
  const op_check::Values x = op_check::random_values(DType::bf16, rows * columns, 4);
  Tensor whole(DType::bf16, {rows * columns}), part(DType::bf16, {rows * columns});
  DropoutMask mask = dropout_case();
  dropout(context, mask, rows, columns, x, whole);
  const auto same = [&](std::int64_t from, std::int64_t count) {
    for (std::int64_t i = from * columns; i < (from + count) * columns; ++i)
      if (whole.span<bf16>()[static_cast<std::size_t>(i)].bits != part.span<bf16>()[static_cast<std::size_t>(i)].bits)
        return false;
    return true;
  };
  mask.first = 4;  // sequence parallelism
  dropout(context, mask, 3, columns, ConstView(x).rows(4 * columns, 7 * columns),
          View(part).rows(4 * columns, 7 * columns));
  CHECK(same(4, 3));
  mask = dropout_case(), mask.sample = 1001;  // the second sequence alone
  dropout(context, mask, 6, columns, ConstView(x).rows(6 * columns, 12 * columns),
          View(part).rows(6 * columns, 12 * columns));
  CHECK(same(6, 6));
  mask = dropout_case(), mask.length = 2, mask.offset = 3;  // positions 3 and 4 of the first sequence
  dropout(context, mask, 2, columns, ConstView(x).rows(3 * columns, 5 * columns),
          View(part).rows(3 * columns, 5 * columns));
  CHECK(same(3, 2));
}

TEST_CASE("dropout: some columns of a row have its mask, wherever they begin, on every backend") {
  const ComputeContext processor(1);
  const std::int64_t rows = 9, whole_columns = 50;
  const op_check::Values x = op_check::random_values(DType::f32, rows * whole_columns, 5);
  Tensor whole(DType::f32, {rows * whole_columns});
  DropoutMask mask = dropout_case();
  dropout(processor, mask, rows, whole_columns, x, whole);
  mask.row_columns = whole_columns;
  for (const auto& [first, on] : op_check::with_backends({0, 13, 40})) {
    const op_check::OpContext context(1, on);
    const std::int64_t columns = first == 0 ? 13 : first == 13 ? 16 : 10;
    CAPTURE(first);
    mask.first_column = first;
    Tensor in(DType::f32, {rows * columns}), out(DType::f32, {rows * columns}), change(DType::f32, {rows * columns});
    const ConstView all = x;
    const auto at = [&](std::int64_t row, std::int64_t c) {
      return static_cast<std::size_t>(row * whole_columns + first + c);
    };
    for (std::int64_t i = 0; i < rows * columns; ++i)
      in.span<float>()[static_cast<std::size_t>(i)] = all.span<float>()[at(i / columns, i % columns)];
    dropout(context, mask, rows, columns, in, out);
    dropout_change(context, mask, rows, columns, in, change);
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const auto here = static_cast<std::size_t>(i);
      REQUIRE(out.span<float>()[here] == whole.span<float>()[at(i / columns, i % columns)]);
      REQUIRE(change.span<float>()[here] ==
              doctest::Approx(out.span<float>()[here] - in.span<float>()[here]).epsilon(1e-6));
    }
  }
}

TEST_CASE("dropout: the share is the rate's, the mean is kept, and samples, places and seeds differ") {
  const ComputeContext context(2);
  const std::int64_t rows = 512, columns = 256;
  Tensor ones(DType::f32, {rows * columns});
  std::ranges::fill(ones.span<float>(), 1.0F);
  const auto masked = [&](const DropoutMask& mask) {
    Tensor out(DType::f32, {rows * columns});
    dropout(context, mask, rows, columns, ones, out);
    return std::vector<float>(out.span<float>().begin(), out.span<float>().end());
  };
  DropoutMask mask = dropout_case();
  mask.length = 64;
  for (const double rate : {0.01, 0.1, 0.5, 0.95}) {
    CAPTURE(rate);
    mask.rate = rate;
    const std::vector<float> out = masked(mask);
    const auto n = static_cast<double>(out.size());
    const auto zeros = static_cast<double>(std::ranges::count(out, 0.0F));
    CHECK(std::abs(zeros / n - rate) < 5 * std::sqrt(rate * (1 - rate) / n));  // 5 deviations
    double sum = 0;
    for (const float one : out) sum += static_cast<double>(one);
    CHECK(sum / n == doctest::Approx(1).epsilon(5 * std::sqrt(rate / (1 - rate) / n)));
  }
  mask.rate = 0.5;
  const std::vector<float> first = masked(mask);
  const auto agrees = [&](const DropoutMask& other) {
    const std::vector<float> out = masked(other);
    std::int64_t equal = 0;
    for (std::size_t i = 0; i < out.size(); ++i) equal += out[i] == first[i];
    return static_cast<double>(equal) / static_cast<double>(out.size());
  };
  CHECK(agrees(mask) == 1.0);
  DropoutMask other = mask;
  other.place = 6;
  CHECK(agrees(other) == doctest::Approx(0.5).epsilon(0.02));
  other = mask, other.sample = 5000;
  CHECK(agrees(other) == doctest::Approx(0.5).epsilon(0.02));
  other = mask, other.seed = 78;
  CHECK(agrees(other) == doctest::Approx(0.5).epsilon(0.02));
}
