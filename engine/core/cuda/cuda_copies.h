// When a copy from the host has taken up its bytes. Pure.
#pragma once

namespace longhaul {

// cudaMemcpyAsync from pinned memory comes back at once. From other memory CUDA takes the bytes into memory of its own
// before it comes back, but where the GPU reads such memory by itself (GH200 and others with pageableMemoryAccess, CUDA
// Programming Guide, "Heterogeneous Memory Management"): there it may come back while the GPU has still to read, and
// the host would write over what travels.
constexpr bool must_wait_for_copy_in(bool pinned, bool gpu_reads_pageable) {
  return pinned || gpu_reads_pageable;
}

}  // namespace longhaul
