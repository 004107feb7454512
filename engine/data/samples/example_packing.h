// Several short examples in one row, so that few positions are padding: best fit, the longest examples first (Krell et
// al. 2021, 2107.02027, section 3.1, there by a histogram of lengths). An example goes into the row with the least
// space left that still holds it, or opens a new one. Every row keeps whole examples; that they do not see each other
// is the attention's business (MicroBatch::first_key).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace longhaul {

// lengths: of each example, in [1, capacity]. Rows of example indices. `seed` decides among equals: which of the
// examples of one length share a row.
std::vector<std::vector<std::int32_t>> pack_examples(std::span<const std::int64_t> lengths, std::int64_t capacity,
                                                     std::uint64_t seed);

}  // namespace longhaul
