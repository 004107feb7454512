#include "engine/ops/pointwise/matrix_lines.h"

#include <algorithm>
#include <cmath>

#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/device_ops.h"

namespace longhaul {
namespace {

// use(i) for each of `count` things of so many elements. Threads share things, which changes no bit.
template <class Use>
void for_each_line(const ComputeContext& context, std::int64_t count, std::int64_t elements, const Use& use) {
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, elements));
  parallel_for(context, count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) use(i);
  });
}

// The sum of `count` products, `stride` elements apart.
float dot_of_line(const float* a, const float* b, std::int64_t count, std::int64_t stride) {
  double sum = 0;
  for (std::int64_t i = 0; i < count * stride; i += stride) sum += static_cast<double>(a[i]) * b[i];
  return static_cast<float>(sum);
}

// There is a number for each line of a matrix.
void check_lines(MatrixLine line, ConstView matrix, std::size_t numbers) {
  LH_ASSERT(matrix.shape().rank() == 2, matrix.shape().text());
  cpu::check_size(numbers, matrix.shape()[line == MatrixLine::row ? 0 : 1], "numbers of a matrix's lines");
}

}  // namespace

void dots_of_lines(const ComputeContext& context, MatrixLine line, ConstView a, ConstView b, bool accumulate,
                   std::span<float> out) {
  LH_ASSERT(a.shape() == b.shape(), a.shape().text() + " and " + b.shape().text());
  check_lines(line, a, out.size());
  if (const DeviceOps* device = context.device_ops()) return device->dots_of_lines(line, a, b, accumulate, out);
  const std::int64_t rows = a.shape()[0], columns = a.shape()[1];
  const bool of_rows = line == MatrixLine::row;
  const std::int64_t elements = of_rows ? columns : rows;
  const std::int64_t step = of_rows ? columns : 1;  // from one line to the next; within it the other way round
  const float *const x = a.as<float>(), *const y = b.as<float>();
  for_each_line(context, of_rows ? rows : columns, elements, [&](std::int64_t i) {
    const float sum = dot_of_line(x + i * step, y + i * step, elements, of_rows ? 1 : columns);
    float& to = out[static_cast<std::size_t>(i)];
    to = accumulate ? to + sum : sum;
  });
}

void scale_lines(const ComputeContext& context, MatrixLine line, std::span<const float> factors, View matrix) {
  check_lines(line, matrix, factors.size());
  if (const DeviceOps* device = context.device_ops()) return device->scale_lines(line, factors, matrix);
  const std::int64_t columns = matrix.shape()[1];
  float* const values = matrix.as<float>();
  for_each_line(context, matrix.shape()[0], columns, [&](std::int64_t row) {
    for (std::int64_t column = 0; column < columns; ++column)
      values[row * columns + column] *= factors[static_cast<std::size_t>(line == MatrixLine::row ? row : column)];
  });
}

void divide_by_roots(const ComputeContext& context, std::span<const float> x, std::span<const float> squares,
                     bool accumulate, std::span<float> out) {
  cpu::check_size(x.size(), static_cast<std::int64_t>(out.size()), "x");
  cpu::check_size(squares.size(), static_cast<std::int64_t>(out.size()), "squares");
  if (const DeviceOps* device = context.device_ops()) return device->divide_by_roots(x, squares, accumulate, out);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float quotient = x[i] / std::sqrt(squares[i]);
    out[i] = accumulate ? out[i] + quotient : quotient;
  }
}

}  // namespace longhaul
