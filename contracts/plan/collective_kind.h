// The operations that groups of ranks do together, and what each costs: read by the communicators (engine/comm), which
// count it, and by the tests' plan, which says it beforehand.
#pragma once

#include <cstdint>

namespace longhaul {

enum class CollectiveKind : std::uint8_t {
  all_reduce_sum,
  all_reduce_max,
  reduce_scatter_sum,
  all_gather,
  broadcast,
  all_to_all,
  all_to_all_v,
  barrier,
  send,
  recv,
};
const char* to_string(CollectiveKind kind);

// Below, an all-reduce is one round in which everybody sends everything to everybody: faster than half the bytes.
inline constexpr std::int64_t small_all_reduce_bytes = 64 * 1024;

// Bytes that rank `rank` of `ranks` sends to the others when it gives `given` bytes (for broadcast: the root) to an
// operation; every pair of ranks exchanges messages directly. all_reduce: small ones as all_gather; else each rank sums
// one piece of the array and sends it to all (reduce-scatter, then all-gather). all_to_all_v: of `given`, `own` bytes
// stay.
std::int64_t bytes_sent(CollectiveKind kind, int ranks, int rank, std::int64_t given, std::int64_t own = 0);

}  // namespace longhaul
