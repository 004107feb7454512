// How long a line of tuning data may be: reading JSON takes up to fifty times its bytes of memory, and a row of this
// length has millions of tokens, more than any sequence_length. A longer one is refused before it is read.
#pragma once

#include <cstddef>

#include "base/error/result.h"
#include "base/text/text.h"

namespace longhaul {

inline constexpr std::size_t row_bytes_max = std::size_t{16} << 20;
// Of what a ranked list becomes: each of its pairs has the whole prompt.
inline constexpr std::size_t ranked_bytes_max = std::size_t{256} << 20;

inline Status check_row_length(std::size_t bytes) {
  if (bytes <= row_bytes_max) return {};
  return make_error(ErrorCode::invalid_input,
                    format("the row has {} bytes, more than {} MiB: it was not read", bytes, row_bytes_max >> 20),
                    "cut it into several, or look whether a line break is missing");
}

}  // namespace longhaul
