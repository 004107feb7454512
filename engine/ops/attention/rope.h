// Rotary position embedding: Su et al. 2021, eq. 34, in the half-split arrangement of Hugging Face's Llama: with h = d
// / 2,
//   y[j] = x[j] cos - x[j+h] sin,  y[j+h] = x[j+h] cos + x[j] sin,  angle = position * f_j,  f_j = theta^(-2j/d)
// The gradient is the rotation by the opposite angle.
#pragma once

#include <span>
#include <vector>

#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

struct RopeScaling {
  enum class Kind { none, linear, llama3 } kind = Kind::none;
  double factor = 1.0;  // linear: f / factor
  // llama3 (Llama 3.1): wave lengths above original / low are divided by factor, below original / high left alone,
  // between them blended.
  double low_freq_factor = 1.0, high_freq_factor = 4.0;
  std::int64_t original_max_position = 8192;
};

// The d/2 frequencies, in f32 like Hugging Face's.
std::vector<float> rope_frequencies(std::int64_t head_dim, double theta, const RopeScaling& scaling = {});

// cos and sin of every position below `positions`, [positions, d/2] each, f32. Built once, shared by all layers.
struct RopeTable {
  std::int64_t positions = 0, half_dim = 0;
  std::vector<float> cosines, sines;
};
RopeTable make_rope_table(std::int64_t positions, std::int64_t head_dim, double theta, const RopeScaling& scaling = {});

struct RopeShape {
  std::int64_t tokens = 0, heads = 0, head_dim = 0;
  std::int64_t row_stride =
      0;  // elements from one token to the next; 0 = heads * head_dim (a slice of a fused QKV else)
};

// In place on x [tokens, heads, head_dim] (f32 or bf16). positions[t] is token t's position; empty: t modulo seq, seq >
// 0. inverse = true rotates back: that is the backward pass.
void rope_apply(const ComputeContext& context, RopeShape shape, const RopeTable& table,
                std::span<const std::int32_t> positions, std::int64_t seq, View x, bool inverse = false);

}  // namespace longhaul
