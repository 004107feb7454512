// The grids of kernels over tiles and rows stay within CUDA's limits, and every pair has one block.
#include "engine/ops/cuda/common/tile_grid.h"

#include <doctest/doctest.h>

using namespace longhaul::cuda;

TEST_CASE("every tile of every row has one block, tiles of a row beside each other") {
  constexpr Index tiles = 5, rows = 7;
  REQUIRE(tile_blocks(tiles, rows) == 35);
  for (unsigned block = 0; block < 35; ++block) {
    const TilePlace place = tile_place(block, tiles);
    CHECK(place.row * tiles + place.tile == block);
    CHECK(place.tile < tiles);
  }
  CHECK(tiles_of(1, 32) == 1);
  CHECK(tiles_of(32, 32) == 1);
  CHECK(tiles_of(33, 32) == 2);
}

TEST_CASE("more rows than the y of a grid may have, up to all blocks of x") {
  CHECK(tile_blocks(1, grid_yz_max + 1) == 65536);
  CHECK(tile_blocks(64, 32 * 4096) == 8388608);
  CHECK(tile_blocks(1, grid_x_max) == 2147483647U);
  const TilePlace last = tile_place(2147483646U, 1);
  CHECK(last.row == 2147483646);
  CHECK(tile_blocks(0, 5) == 0);
}
