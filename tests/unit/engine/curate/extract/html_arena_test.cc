// Memory of one page's parse: blocks are aligned, do not overlap, and are used again; large ones go back at once.
#include "engine/curate/html/html_arena.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "base/digest/philox.h"

using namespace longhaul;

TEST_CASE("blocks of all sizes are aligned and hold what is written to them") {
  HtmlArena arena;
  PhiloxSequence draw(41);
  std::vector<std::pair<unsigned char*, std::size_t>> blocks;
  const auto filled = [](const auto& block) { return static_cast<unsigned char>(block.second * 31 + 7); };
  const auto is_whole = [&](const auto& block) {
    return std::all_of(block.first, block.first + block.second, [&](unsigned char c) { return c == filled(block); });
  };
  for (int i = 0; i < 20'000; ++i) {
    if (!blocks.empty() && draw.next_below(3) == 0) {
      std::swap(blocks[draw.next_below(blocks.size())], blocks.back());
      REQUIRE(is_whole(blocks.back()));
      arena.release(blocks.back().first);
      blocks.pop_back();
      continue;
    }
    const std::size_t size = draw.next_below(50) == 0 ? draw.next_below(100'000) : draw.next_below(1100);
    auto* bytes = static_cast<unsigned char*>(arena.allocate(size));
    REQUIRE(bytes != nullptr);
    REQUIRE(reinterpret_cast<std::uintptr_t>(bytes) % 16 == 0);
    blocks.emplace_back(bytes, size);
    std::memset(bytes, filled(blocks.back()), size);
  }
  for (const auto& block : blocks) REQUIRE(is_whole(block));
}

TEST_CASE("a released block is the next of its size, so that what a parser takes and gives back costs nothing") {
  HtmlArena arena;
  arena.release(nullptr);
  std::set<void*> places;
  for (int i = 0; i < 1'000; ++i) {
    void* block = arena.allocate(104);
    places.insert(block);
    arena.release(block);
  }
  CHECK(places.size() == 1);
  CHECK(arena.allocate(SIZE_MAX - 4) == nullptr);
}
