// The digests of engine/ops/loss/digest.h.
#pragma once

#include "engine/ops/cuda/common/stream.h"

namespace longhaul::cuda {

// Elements that digest_parts() needs at `partial`.
Index digest_partials(Index n, Index parts);
// out[p] = the digest of elements [n p / parts, n (p + 1) / parts) of x, at any address of an f32.
void digest_parts(cudaStream_t stream, Index n, const float* x, Index parts, std::uint64_t* partial,
                  std::uint64_t* out);

}  // namespace longhaul::cuda
