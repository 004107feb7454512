// What stands before every text (ModelShape::virtual_tokens) as PEFT keeps it: one matrix of a row for each virtual
// token. Embeddings are that matrix. Of keys and values (ModelShape::virtual_keys) a row has those of all layers, [keys
// of layer 0, values of layer 0, keys of layer 1, ...], kv_size elements each.
#pragma once

#include <cstdint>
#include <span>

#include "contracts/model/parameter_list.h"

namespace longhaul {

// Elements of a row.
std::int64_t prompt_width(const ModelShape& shape);
// Of the matrix [virtual_tokens, prompt_width] to one of the parameters that it is; and back.
void prompt_part(const ModelShape& shape, const ParameterSpec& part, std::span<const float> prompt,
                 std::span<float> values);
void put_prompt_part(const ModelShape& shape, const ParameterSpec& part, std::span<const float> values,
                     std::span<float> prompt);

}  // namespace longhaul
