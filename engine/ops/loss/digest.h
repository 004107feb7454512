// Checksums of the parts of an array (engine/core/tensor/word_digest.h says what they find): what a rank gives to each
// of the others in a sum (engine/comm/contribution_check.h).
#pragma once

#include <cstdint>
#include <span>

#include "engine/core/tensor/compute_context.h"

namespace longhaul {

// x cut into out.size() parts, of which part p is elements [n p / parts, n (p + 1) / parts): out[p] = word_digest() of
// its bytes, the same on every device, whatever x's address. `out` lies where operations work, and nothing waits.
void digest_parts(const ComputeContext& context, std::span<const float> x, std::span<std::uint64_t> out);

}  // namespace longhaul
