// Attention as a graph that cuDNN has engines for. cuDNN recognises attention by the pattern of its operations; the
// pattern, with the types and strides of what lies between them, is the one that NVIDIA's cudnn-frontend builds for
// this release (the composite nodes of its sdpa and sdpa_backward). tests/parity/golden/cudnn holds what the frontend
// builds, and a test compares descriptor by descriptor.
#pragma once

#include "engine/ops/cuda/libraries/cudnn_graph.h"

namespace longhaul::cuda {

// Of one call of cuDNN, which may be a part of an attention (engine/ops/attention/attention_choice.h).
struct CudnnAttentionSizes {
  std::int64_t batch = 0, seq = 0, kv_seq = 0, heads = 0, kv_heads = 0, head_dim = 0;
  // Elements to the next token and to the next sequence; heads follow each other.
  std::int64_t q_stride = 0, kv_stride = 0, out_stride = 0;
  std::int64_t q_batch_stride = 0, kv_batch_stride = 0, out_batch_stride = 0;
  bool causal = true;
  std::int64_t window = 0;  // as AttentionShape has it
  auto operator<=>(const CudnnAttentionSizes&) const = default;
};

// Numbers by value: the scale of scores; minus infinity, what is masked; for keys before the queries, both lengths; for
// a window, minus infinity again, and how far a key's column lies before the first row that does not see it.
struct CudnnAttentionNumbers {
  CudnnGraph::Tensor scale = 0, masked = 0, kv_seq = 0, seq = 0, beyond = 0, reach = 0;  // 0: there is none
};
// The last of these.
inline float cudnn_window_reach(std::int64_t window, std::int64_t seq, std::int64_t kv_seq) {
  return static_cast<float>(window - kv_seq + seq);
}

struct CudnnAttentionForward {
  CudnnGraph::Tensor q = 0, k = 0, v = 0, out = 0;
  CudnnGraph::Tensor lse = 0;  // [batch, heads, seq], natural logarithm; 0 where it is not kept
  CudnnAttentionNumbers numbers;
};
CudnnAttentionForward add_attention_forward(CudnnGraph& graph, const CudnnAttentionSizes& sizes, bool lse);

struct CudnnAttentionBackward {
  CudnnGraph::Tensor q = 0, k = 0, v = 0, out = 0, dout = 0, lse = 0, dq = 0, dk = 0, dv = 0;
  CudnnGraph::Tensor delta = 0;   // scratch: [batch, heads, seq] f32, the sum of dout out
  CudnnGraph::Tensor dq_sum = 0;  // scratch: [batch, heads, seq, head_dim] f32; 0 where deterministic
  CudnnGraph::Tensor one = 0;     // by value: 1
  CudnnAttentionNumbers numbers;
};
// Deterministic: dq is one product of a gradient of the scores that is written to the workspace, not summed by blocks
// as they come.
CudnnAttentionBackward add_attention_backward(CudnnGraph& graph, const CudnnAttentionSizes& sizes, bool deterministic);

}  // namespace longhaul::cuda
