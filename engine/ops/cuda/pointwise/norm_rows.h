// How the kernels of RMSNorm and LayerNorm share a row out over the threads of a block.
#pragma once

namespace longhaul::cuda {

inline constexpr int norm_packs = 4;            // of 16 bytes that a thread has of its row
inline constexpr int short_rows_threads = 128;  // of a block in which each warp has a row

}  // namespace longhaul::cuda
