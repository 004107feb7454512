#include "engine/core/released_blocks.h"

#include <doctest/doctest.h>

#include <array>
#include <set>

using namespace longhaul;

TEST_CASE("released blocks go to who asks for as much or half of it, and for nothing else") {
  std::array<std::byte, 3> places;
  ReleasedBlocks blocks;
  blocks.add(&places[0], 1000), blocks.add(&places[1], 3000), blocks.add(&places[2], 1000);
  CHECK(blocks.take(1000) == nullptr);  // nothing is released
  blocks.release(&places[0]), blocks.release(&places[1]);
  CHECK(blocks.bytes() == 4000);
  CHECK(blocks.take(1001) == nullptr);
  CHECK(blocks.take(499) == nullptr);
  CHECK(blocks.take(500) == &places[0]);
  CHECK(blocks.take(500) == nullptr);  // in use again
  CHECK(blocks.take(1500) == &places[1]);
  blocks.release(&places[1]), blocks.release(&places[2]);
  std::set<std::byte*> freed;
  blocks.drain([&](std::byte* memory) { freed.insert(memory); });
  CHECK(freed == std::set<std::byte*>{&places[1], &places[2]});
  CHECK(blocks.bytes() == 0);
  CHECK(blocks.take(3000) == nullptr);
}
