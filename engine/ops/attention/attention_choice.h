// Which implementation an attention of a GPU takes: cuDNN's, the own kernels on tensor cores, or the own kernel in f32
// arithmetic. Pure; what a program finds out about its cuDNN comes in as CudnnFacts.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

#include "engine/core/tensor/dtype.h"

namespace longhaul {

// What a stage's settings say of it.
struct AttentionSettings {
  std::string backend = "auto";  // | cudnn: as auto, but a rank that lacks cuDNN is refused | own: never cuDNN
  bool deterministic = true;     // twice the same bits
};

struct CudnnFacts {
  bool usable = false;
  std::string why_not;          // where it is not
  int compute_capability = 80;  // of the GPU: 90 is 9.0
};

// One kind of call: calls that are equal here take the same way.
struct AttentionCase {
  bool backward = false;
  DType dtype = DType::bf16;
  std::int64_t batch = 0, seq = 0, kv_seq = 0, heads = 0, kv_heads = 0, head_dim = 0;
  bool causal = true;
  std::int64_t window = 0;                                                        // 0: none, or it holds all keys
  bool documents = false;                                                         // a first key for every query
  bool lse = false;                                                               // forward: kept for a backward pass
  bool aligned = false;                                                           // rows begin at multiples of 16 bytes
  bool lse_aligned = true;                                                        // its first element does
  std::int64_t q_stride = 0, kv_stride = 0, out_stride = 0, kv_batch_stride = 0;  // as AttentionShape has them
  auto operator<=>(const AttentionCase&) const = default;
  std::string text() const;  // "forward bf16 batch=1 seq=4096 …"
};

enum class AttentionWay { cudnn, tensor_cores, plain };
const char* attention_way_name(AttentionWay way);

struct AttentionChoice {
  AttentionWay way = AttentionWay::plain;
  std::string reason;
};
AttentionChoice choose_attention(const AttentionCase& asked, const AttentionSettings& settings,
                                 const CudnnFacts& cudnn);

// The best of the own kernels for a case.
AttentionWay own_attention(const AttentionCase& asked);

// A backward pass, and a forward pass, can be cut: sequences and heads have nothing to do with each other. The largest
// part of a call whose memory for intermediate results stays below `bytes_max`: some of the sequences with all their
// heads, or one sequence with some of its heads of keys and those of queries that read them (so that lse of a part is
// packed, which cuDNN before 9.26 needs). Both divide the call, and lse of every part begins at a multiple of 16 bytes.
// kv_heads 0: there is no such part.
struct AttentionPart {
  std::int64_t batch = 0, kv_heads = 0;
};
AttentionPart attention_part(const AttentionCase& asked, bool deterministic, std::int64_t bytes_max);

// What a case was found to take, reported when it comes for the first time.
struct AttentionReport {
  AttentionCase asked;
  AttentionChoice choice;
};
using AttentionObserver = std::function<void(const AttentionReport&)>;

}  // namespace longhaul
