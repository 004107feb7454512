// A fixed set of sequences, the unit that layouts distribute. Borrowed memory: the caller keeps it until the slot's
// backward.
#pragma once

#include <cstdint>
#include <span>

namespace longhaul {

// What stands in `targets` where no token is predicted: behind a token that is none of the loss, and behind padding,
// whose output nobody reads.
inline constexpr std::int32_t no_target = -1, padding_target = -2;

struct MicroBatch {
  std::int64_t sequences = 0;
  std::int64_t length = 0;                  // tokens of each sequence, padding included
  std::span<const std::int32_t> ids;        // [sequences * length]
  std::span<const std::int32_t> targets;    // [sequences * length]: the next token, or one of the above
  std::span<const std::int32_t> positions;  // [sequences * length], or empty: 0 .. length - 1 in every sequence
  std::span<const std::int32_t> first_key;  // [sequences * length]: start of the token's own document, or empty: 0
  // With context parallelism `sequences` are the pieces of this rank (engine/parallel/context/context_shard.h);
  // positions and first_key count from the beginning of the whole sequence. first_key of all its tokens, or empty:
  std::span<const std::int32_t> whole_first_key = {};
  std::int64_t first_sequence = -1;  // in the global order: the others follow it there; -1: no dropout
  // first_key in the host's memory, where that lies on a device.
  std::span<const std::int32_t> host_first_key = {};
  // [sequences * length] in the host's memory: 0 for padding; empty: there is none.
  std::span<const std::uint8_t> real = {};
  // [sequences * length] where `ids` lie on a device: what was given, in the host's memory; and on the device rows of
  // what stands before a text, -1 for other tokens, or empty: nothing does.
  std::span<const std::int32_t> host_ids = {}, prompt_rows = {};

  std::int64_t tokens() const { return sequences * length; }
};

}  // namespace longhaul
