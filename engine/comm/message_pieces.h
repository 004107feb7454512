// Libraries count a message's bytes in an int: longer ones travel as several, in their order.
#pragma once

#include <algorithm>
#include <climits>
#include <cstddef>

#include "base/error/result.h"

namespace longhaul {

inline constexpr std::size_t message_bytes_max = std::size_t{1} << 30;
static_assert(message_bytes_max <= INT_MAX);

// f(offset, bytes) -> Status for the pieces of a message of `bytes`, none above `piece_max`, in order and without gaps;
// an empty message is one empty piece. Stops at the first that fails.
template <class F>
Status for_message_pieces(std::size_t bytes, std::size_t piece_max, const F& f) {
  std::size_t offset = 0;
  do {
    const std::size_t piece = std::min(bytes - offset, piece_max);
    LH_CHECK(f(offset, piece));
    offset += piece;
  } while (offset < bytes);
  return {};
}

}  // namespace longhaul
