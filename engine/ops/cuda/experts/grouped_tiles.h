// Which rows a block works on: tiles of rows of one expert each, given by offsets on the device.
#pragma once

#include "engine/ops/cuda/common/device_code.h"

namespace longhaul::cuda {

// Tiles there may be: each expert's last one may be short.
inline Index row_tiles_max(Index rows, Index experts, Index tile) {
  return rows / tile + (experts < rows ? experts : rows);
}

struct RowTile {
  Index expert, begin, end;  // expert < 0: there are fewer tiles
};
// Tile number `index` of those of all experts in order. Called by whole warps.
__device__ inline RowTile find_row_tile(const std::int64_t* offsets, Index experts, Index tile, Index index) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  Index before = 0;
  for (Index first = 0; first < experts; first += warp_size) {
    const Index e = first + lane;
    const int tiles = e < experts ? static_cast<int>((offsets[e + 1] - offsets[e] + tile - 1) / tile) : 0;
    int upto = tiles;  // of the lanes up to this one
    LONGHAUL_UNROLL
    for (int step = 1; step < warp_size; step *= 2) {
      const int other = shuffle(upto, lane < step ? lane : lane - step);
      if (lane >= step) upto += other;
    }
    const int all = shuffle(upto, warp_size - 1);
    if (index < before + all) {
      const Index own = before + upto - tiles;
      const bool here = index >= own && index < before + upto;
      const int found = sum_over_warp(here ? lane + 1 : 0) - 1;
      const int place = shuffle(static_cast<int>(index - own), found);
      const Index expert = first + found, begin = offsets[expert] + place * tile;
      const Index end = offsets[expert + 1];
      return {expert, begin, begin + tile < end ? begin + tile : end};
    }
    before += all;
  }
  return {-1, 0, 0};
}

}  // namespace longhaul::cuda
