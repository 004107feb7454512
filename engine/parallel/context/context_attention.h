// Room engine/parallel/context
// Attention of sequences that are cut over the ranks of a cp group, in three ways with the same result.
// context_attention.h is the contract; context_shard.h says which rank has which tokens.
// Each way is one source (ring, gather, head exchange); context_parts.h is what they share. context_numbers.h brings
// numbers of tokens together, for losses of whole texts.
// It does not know tensor parallelism: heads are already divided when it is called.
//
// Attention of tokens that are distributed over the ranks of a cp group (context_shard.h): every rank has the queries
// of its own tokens and needs the keys and values of all tokens before them. Three ways, the same mathematics:
//   ring    blocks of keys and values go round the ranks while the one at hand is used; partial results are joined by
//           their log-sum-exps (Liu et al. 2023, "Ring Attention", section 3); gradients of keys and values travel
//           along. Memory: two blocks of other ranks, whatever cp is. Messages are hidden behind the computation.
//   gather  keys and values of all ranks are gathered, each chunk attends to what lies before it (Llama 3, Grattafiori
//   et
//           al. 2024, section 3.3.2). One collective, not hidden; memory for the keys and values of whole sequences.
//   a2a     an all-to-all gives every rank some of the heads over the whole sequence, and another one the result back
//           (Jacobs et al. 2023, "DeepSpeed Ulysses", section 3.1). Needs heads enough: kv heads of a tp rank a
//           multiple of cp.
// All ranks of a group make the same calls in the same order. A failure is kept and everything after it does nothing:
// whoever runs the model asks status(). Deterministic.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/error/result.h"
#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"
#include "engine/parallel/mesh/mesh.h"

namespace longhaul {

enum class ContextAttentionKind { ring, gather, a2a };
// "ring", "gather" or "a2a".
Result<ContextAttentionKind> context_attention_kind(const std::string& name);

// t tokens here, q and kv: width of this rank's heads. Rows of qkv hold queries, keys and values.
struct ContextAttentionSizes {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t tokens_max = 0;  // on this rank
  DType dtype = DType::f32;
  bool training = true;     // false: forward only
  bool overlap = true;      // ring: messages are on their way while attention is computed
  std::int64_t window = 0;  // AttentionShape::window, over whole sequences

  std::int64_t q() const { return heads * head_dim; }
  std::int64_t kv() const { return kv_heads * head_dim; }
  std::int64_t width() const { return q() + 2 * kv(); }
};

// The tokens of a micro-batch on this rank: with one rank `pieces` sequences of `length` tokens, else the pieces of
// context_shard.h. Places of keys count from the beginning of the whole sequence.
struct ContextTokens {
  std::int64_t pieces = 0, length = 0;
  std::span<const std::int32_t> first_key;             // [pieces, length] the first key a token may see; empty: 0
  std::span<const std::int32_t> whole_first_key = {};  // with cp: the same of all tokens, [sequences, whole length]
  std::span<const std::int32_t> host_first_key = {};   // first_key in the host's memory, where that lies on a device
  std::int64_t tokens() const { return pieces * length; }
};

class ContextAttention {
 public:
  virtual ~ContextAttention() = default;
  // qkv [t, q + 2 kv], rotated -> out [t, q]. lse [t * heads] is what backward needs of it. qkv may be rearranged:
  // nobody but backward reads it again.
  virtual void forward(const ComputeContext& context, const ContextTokens& tokens, View qkv, View out,
                       std::span<float> lse) = 0;
  // dout [t, q], and what forward took and gave -> dqkv [t, q + 2 kv].
  virtual void backward(const ComputeContext& context, const ContextTokens& tokens, ConstView dout, ConstView qkv,
                        ConstView out, std::span<const float> lse, View dqkv) = 0;

  const Status& status() const { return status_; }

 protected:
  Status status_;
};

// mesh null or with cp = 1: no rank but this one. Memory is taken here, once.
std::unique_ptr<ContextAttention> make_context_attention(ContextAttentionKind kind, Mesh* mesh,
                                                         const ContextAttentionSizes& sizes, MemoryAccount* account);

}  // namespace longhaul
