#include "engine/model/adapter/matrix_rows.h"

#include <algorithm>

#include "engine/core/tensor/parallel_for.h"

namespace longhaul {

namespace {

// use(i) for each of `count` things of so many elements.
template <class Use>
void for_each_of(const ComputeContext& context, std::int64_t count, std::int64_t elements, const Use& use) {
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, elements));
  parallel_for(context, count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) use(i);
  });
}

// The sum of `count` products, `stride` elements apart.
float dot(const float* a, const float* b, std::int64_t count, std::int64_t stride) {
  double sum = 0;
  for (std::int64_t i = 0; i < count * stride; i += stride) sum += static_cast<double>(a[i]) * b[i];
  return static_cast<float>(sum);
}

}  // namespace

std::vector<float> dots_of_rows(const ComputeContext& context, ConstView a, ConstView b) {
  const std::int64_t rows = a.shape()[0], columns = a.shape()[1];
  const float *const x = a.span<float>().data(), *const y = b.span<float>().data();
  std::vector<float> dots(static_cast<std::size_t>(rows));
  for_each_of(context, rows, columns, [&](std::int64_t i) {
    dots[static_cast<std::size_t>(i)] = dot(x + i * columns, y + i * columns, columns, 1);
  });
  return dots;
}

std::vector<float> dots_of_columns(const ComputeContext& context, ConstView a, ConstView b) {
  const std::int64_t rows = a.shape()[0], columns = a.shape()[1];
  const float *const x = a.span<float>().data(), *const y = b.span<float>().data();
  std::vector<float> dots(static_cast<std::size_t>(columns));
  for_each_of(context, columns, rows,
              [&](std::int64_t j) { dots[static_cast<std::size_t>(j)] = dot(x + j, y + j, rows, columns); });
  return dots;
}

void scale_rows(const ComputeContext& context, View matrix, std::span<const float> factors) {
  const std::int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  float* const values = matrix.span<float>().data();
  for_each_of(context, rows, columns, [&](std::int64_t i) {
    for (std::int64_t j = 0; j < columns; ++j) values[i * columns + j] *= factors[static_cast<std::size_t>(i)];
  });
}

void scale_columns(const ComputeContext& context, View matrix, std::span<const float> factors) {
  const std::int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  float* const values = matrix.span<float>().data();
  for_each_of(context, rows, columns, [&](std::int64_t i) {
    for (std::int64_t j = 0; j < columns; ++j) values[i * columns + j] *= factors[static_cast<std::size_t>(j)];
  });
}

}  // namespace longhaul
