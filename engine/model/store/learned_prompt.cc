#include "engine/model/store/learned_prompt.h"

#include <algorithm>

#include "base/error/result.h"

namespace longhaul {

namespace {

// Where a row of the part begins in a row of the matrix.
std::int64_t column_of(const ModelShape& shape, const ParameterSpec& part) {
  if (!shape.virtual_keys) return 0;
  const bool keys = part.name == prefix_keys_name(shape, part.layer);
  return (2 * part.layer + (keys ? 0 : 1)) * shape.kv_size();
}

// Calls copy(element of the part, element of the matrix, count) for each row.
template <class Copy>
void for_each_row(const ModelShape& shape, const ParameterSpec& part, const Copy& copy) {
  const std::int64_t width = prompt_width(shape), columns = part.shape[1], first = column_of(shape, part);
  LH_ASSERT(part.shape[0] == shape.virtual_tokens && first + columns <= width, part.name);
  for (std::int64_t row = 0; row < part.shape[0]; ++row) copy(row * columns, row * width + first, columns);
}

}  // namespace

std::int64_t prompt_width(const ModelShape& shape) {
  return shape.virtual_keys ? 2 * shape.num_hidden_layers * shape.kv_size() : shape.hidden_size;
}

void prompt_part(const ModelShape& shape, const ParameterSpec& part, std::span<const float> prompt,
                 std::span<float> values) {
  for_each_row(shape, part, [&](std::int64_t mine, std::int64_t theirs, std::int64_t count) {
    std::copy_n(prompt.data() + theirs, count, values.data() + mine);
  });
}

void put_prompt_part(const ModelShape& shape, const ParameterSpec& part, std::span<const float> values,
                     std::span<float> prompt) {
  for_each_row(shape, part, [&](std::int64_t mine, std::int64_t theirs, std::int64_t count) {
    std::copy_n(values.data() + mine, count, prompt.data() + theirs);
  });
}

}  // namespace longhaul
