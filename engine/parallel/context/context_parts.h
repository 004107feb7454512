// What the implementations of context attention share.
#pragma once

#include "engine/ops/attention/attention.h"
#include "engine/parallel/context/context_attention.h"
#include "engine/parallel/context/context_shard.h"

namespace longhaul {

// An implementation over several ranks: the group, its failures, and the places of chunks in flat memory.
class SplitContextAttention : public ContextAttention {
 protected:
  SplitContextAttention(Mesh& mesh, const ContextAttentionSizes& sizes)
      : sizes_(sizes),
        communicator_(*mesh.context_communicator()),
        shard_(mesh.dims().cp, mesh.at().cp),
        deadline_ms_(mesh.deadline_ms()) {}

  static std::int64_t sequences_of(const ContextTokens& tokens) { return tokens.pieces / 2; }
  // Tokens of one chunk of all sequences, and of a sequence.
  static std::int64_t rows_of_chunk(const ContextTokens& tokens) { return tokens.tokens() / 2; }
  std::int64_t whole_length(const ContextTokens& tokens) const { return tokens.length * shard_.chunks(); }

  // Until done; a failure is kept. Requests that were started after one are dropped.
  void finish(Request request) {
    if (const Status done = communicator_.wait(std::move(request), deadline_ms_); !done.ok() && status_.ok())
      status_ = done;
  }

  ContextAttentionSizes sizes_;
  Communicator& communicator_;
  ContextShard shard_;
  std::int64_t deadline_ms_;
};

inline ConstBytes bytes_of(ConstView x, std::int64_t elements) {
  return {static_cast<const std::byte*>(x.data()), static_cast<std::size_t>(elements * dtype_bytes(x.dtype()))};
}
inline Bytes bytes_of(View x, std::int64_t elements) {
  return {static_cast<std::byte*>(x.data()), static_cast<std::size_t>(elements * dtype_bytes(x.dtype()))};
}

// Rows [ranks][early | late][sequence][token of the chunk] <-> [sequence][token of the whole].
void ranks_to_sequences(const ComputeContext& context, const ContextShard& shard, const ContextTokens& tokens,
                        std::int64_t columns, ConstView ranks, View sequences);
void sequences_to_ranks(const ComputeContext& context, const ContextShard& shard, const ContextTokens& tokens,
                        std::int64_t columns, ConstView sequences, View ranks);

std::unique_ptr<ContextAttention> make_ring_attention(Mesh& mesh, const ContextAttentionSizes& sizes,
                                                      MemoryAccount* account);
std::unique_ptr<ContextAttention> make_gather_attention(Mesh& mesh, const ContextAttentionSizes& sizes,
                                                        MemoryAccount* account);
std::unique_ptr<ContextAttention> make_head_exchange_attention(Mesh& mesh, const ContextAttentionSizes& sizes,
                                                               MemoryAccount* account);

}  // namespace longhaul
