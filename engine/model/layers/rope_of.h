// The rotary embedding that a model's shape asks for.
#pragma once

#include "contracts/model/model_shape.h"
#include "engine/ops/attention/rope.h"

namespace longhaul {

inline RopeScaling rope_scaling_of(const ModelShape& shape) {
  RopeScaling scaling;
  if (shape.rope_type == "linear") scaling.kind = RopeScaling::Kind::linear;
  if (shape.rope_type == "llama3") scaling.kind = RopeScaling::Kind::llama3;
  scaling.factor = shape.rope_factor;
  scaling.low_freq_factor = shape.rope_low_freq_factor;
  scaling.high_freq_factor = shape.rope_high_freq_factor;
  scaling.original_max_position = shape.rope_original_max_position_embeddings;
  return scaling;
}

inline RopeTable rope_table_of(const ModelShape& shape, std::int64_t positions) {
  return make_rope_table(positions, shape.head_dim, shape.rope_theta, rope_scaling_of(shape));
}

}  // namespace longhaul
