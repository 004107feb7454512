// Grids over pairs of a tile and a row (of a batch and its heads, say). CUDA lets a grid have 2^31 - 1 blocks in x and
// 65,535 in y and z (Programming Guide, "Technical Specifications per Compute Capability"), and a batch of long tasks
// has more pairs of a sequence and a head: so both go into x, tiles of a row beside each other. Pure.
#pragma once

#include "base/error/result.h"
#include "engine/ops/cuda/common/stream.h"

namespace longhaul::cuda {

inline constexpr Index grid_x_max = 2147483647, grid_yz_max = 65535;

constexpr Index tiles_of(Index elements, Index tile) {
  return (elements + tile - 1) / tile;
}

// Blocks in x. More than a grid may have is a broken invariant: such tensors fit no GPU.
inline unsigned tile_blocks(Index tiles, Index rows) {
  LH_ASSERT(tiles >= 0 && rows >= 0 && (tiles == 0 || rows <= grid_x_max / tiles),
            std::to_string(tiles) + " tiles of each of " + std::to_string(rows) + " rows");
  return static_cast<unsigned>(tiles * rows);
}

struct TilePlace {
  Index tile, row;
};
// Of block number `block` of them.
constexpr TilePlace tile_place(unsigned block, Index tiles) {
  const auto each = static_cast<unsigned>(tiles);
  return {block % each, block / each};
}

}  // namespace longhaul::cuda
