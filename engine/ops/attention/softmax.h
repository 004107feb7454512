// Softmax of rows, in f32: for sampling, routers and tests of logits.
#pragma once

#include <span>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

// probabilities[r] = softmax(logits[r] / temperature), [rows, columns]; logits f32 or bf16; temperature > 0.
void softmax_rows(const ComputeContext& context, std::int64_t rows, std::int64_t columns, ConstView logits,
                  float temperature, std::span<float> probabilities);

}  // namespace longhaul
