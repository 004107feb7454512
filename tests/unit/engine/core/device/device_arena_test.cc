#include "engine/core/device/device_arena.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/text/text.h"
#include "tests/support/seed.h"

using namespace longhaul;

namespace {

// Addresses that nobody touches: an arena must not either. Segments may lie beside each other, as a GPU's may.
class Addresses {
 public:
  explicit Addresses(std::int64_t room) : room_(room) {}
  DeviceArena::Source source() {
    return {[this](std::int64_t bytes) { return take(bytes); }, [this](std::byte* segment) { give_back(segment); }};
  }
  const std::map<std::byte*, std::int64_t>& segments() const { return segments_; }
  std::int64_t taken() const { return taken_; }
  int calls = 0;

 private:
  std::byte* take(std::int64_t bytes) {
    ++calls;
    if (taken_ + bytes > room_) return nullptr;
    auto* const segment = reinterpret_cast<std::byte*>(next_);
    next_ += static_cast<std::uintptr_t>(bytes);
    taken_ += bytes;
    segments_[segment] = bytes;
    return segment;
  }
  void give_back(std::byte* segment) {
    REQUIRE(segments_.contains(segment));
    taken_ -= segments_.at(segment);
    segments_.erase(segment);
  }
  std::int64_t room_, taken_ = 0;
  std::uintptr_t next_ = 0x7f0000000000;
  std::map<std::byte*, std::int64_t> segments_;
};

constexpr DeviceArena::Rule small{.shared_segment = 4096, .own_from = 2048, .granularity = 512, .idle_max = 1 << 20};

}  // namespace

TEST_CASE("an arena hands out the smallest free piece that is large enough, and joins neighbours again") {
  Addresses addresses(1 << 20);
  DeviceArena arena(addresses.source(), small);
  std::vector<std::byte*> all;
  for (const std::int64_t bytes : {256, 768, 256, 512, 256}) all.push_back(arena.allocate(bytes));
  CHECK(arena.usage().segment_count == 1);
  arena.release(all[1]), arena.release(all[3]);
  CHECK(arena.allocate(400) == all[3]);  // of 512, not the 768 that come first
  CHECK(arena.allocate(700) == all[1]);
  CHECK(arena.usage().rounding == 112 + 68);
  for (std::byte* memory : all) arena.release(memory);
  CHECK(arena.usage().largest_free == 4096);
  CHECK(arena.allocate(1700) == all[0]);  // the whole segment is one piece again
  arena.release(all[0]);
}

TEST_CASE("large pieces have segments of their own, which small ones never keep from being given back") {
  Addresses addresses(1 << 20);
  DeviceArena arena(addresses.source(), small);
  std::byte* const large = arena.allocate(3000);
  CHECK(addresses.segments().at(large) == 3072);  // no more than it needs
  arena.release(large);
  std::byte* const little = arena.allocate(1);
  CHECK(little != large);
  CHECK(arena.allocate(2500) == large);  // a large one may take a part
  arena.release(large);
  CHECK(arena.idle_bytes() == 3072);
  CHECK(arena.trim() == 3072);
  CHECK(!addresses.segments().contains(large));
  CHECK(arena.trim() == 0);
  arena.release(little);
  CHECK(arena.trim() == 4096);
  CHECK(addresses.taken() == 0);
  CHECK(arena.usage().segments == 0);
  CHECK(arena.usage().segments_max == 7168);
}

TEST_CASE("where there is no room for a segment to be shared, one of the piece's own size is tried") {
  Addresses addresses(1024);
  DeviceArena arena(addresses.source(), small);
  std::byte* const first = arena.allocate(600);
  REQUIRE(first != nullptr);
  CHECK(addresses.taken() == 1024);
  CHECK(arena.allocate(200) == first + 768);
  CHECK(arena.allocate(300) == nullptr);
  CHECK(arena.allocate(1 << 20) == nullptr);
  const std::string text = arena.usage().text();
  CHECK_MESSAGE(text.find("1 segments") != std::string::npos, text);
  arena.release(first), arena.release(first + 768);
}

// Pieces lie within segments, apart from each other; the account is right; everything comes back.
TEST_CASE("an arena in random sequences") {
  const std::uint64_t seed = testing::seed(20261125);
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 20; ++round) {
    Addresses addresses(200'000);
    DeviceArena arena(addresses.source(), small);
    std::map<std::byte*, std::int64_t> alive;
    std::int64_t asked = 0, used = 0;
    const auto check = [&] {
      const DeviceArena::Usage usage = arena.usage();
      REQUIRE(usage.asked == asked);
      REQUIRE(usage.segments == addresses.taken());
      REQUIRE(usage.segments == usage.asked + usage.rounding + usage.unused);
      REQUIRE(usage.asked + usage.rounding == used);
      const std::byte* end = nullptr;
      for (const auto& [memory, bytes] : alive) {
        REQUIRE(reinterpret_cast<std::uintptr_t>(memory) % DeviceArena::alignment == 0);
        REQUIRE((end == nullptr || memory >= end));
        end = memory + bytes;
        const auto segment = std::prev(addresses.segments().upper_bound(memory));
        REQUIRE(end <= segment->first + segment->second);
      }
    };
    for (int i = 0; i < 400; ++i) {
      const bool takes = alive.empty() || random() % 100 < (i < 250 ? 60 : 35);
      if (takes) {
        const auto bytes = static_cast<std::int64_t>(random() % (random() % 4 == 0 ? 9000 : 900));
        std::byte* const memory = arena.allocate(bytes);
        if (memory == nullptr) {  // there really is none
          const std::int64_t least = (bytes + 255) / 256 * 256, segment = (least + 511) / 512 * 512;
          REQUIRE(addresses.taken() + segment > 200'000);
          continue;
        }
        REQUIRE(!alive.contains(memory));
        alive[memory] = bytes, asked += bytes, used += std::max<std::int64_t>(256, (bytes + 255) / 256 * 256);
      } else {
        auto gone = alive.begin();
        std::advance(gone, static_cast<std::ptrdiff_t>(random() % alive.size()));
        used -= arena.release(gone->first);
        asked -= gone->second;
        alive.erase(gone);
      }
      if (random() % 50 == 0) arena.trim();
      check();
    }
    for (const auto& [memory, bytes] : alive) arena.release(memory);
    CHECK(arena.idle_bytes() == addresses.taken());
    arena.trim();
    CHECK(addresses.taken() == 0);
  }
}

TEST_CASE("no more lies idle than the rule lets; for a sanitizer each piece is a segment, and none is kept") {
  Addresses addresses(1 << 20);
  DeviceArena::Rule rule = small;
  rule.idle_max = 4096;
  DeviceArena arena(addresses.source(), rule);
  std::byte* const one = arena.allocate(4096);
  std::byte* const two = arena.allocate(5000);
  arena.release(one);
  CHECK(addresses.taken() == 4096 + 5120);
  arena.release(two);
  CHECK(addresses.taken() == 0);
  DeviceArena apart(addresses.source(), DeviceArena::Rule::each_alone());
  std::vector<std::byte*> pieces;
  for (const std::int64_t bytes : {1, 300, 5000, 1}) pieces.push_back(apart.allocate(bytes));
  CHECK(addresses.segments().size() == 4);
  CHECK(addresses.segments().at(pieces[1]) == 512);
  apart.release(pieces[2]);
  CHECK(addresses.segments().size() == 3);
  for (const int i : {0, 1, 3}) apart.release(pieces[static_cast<std::size_t>(i)]);
  CHECK(addresses.taken() == 0);
}

TEST_CASE("ranks that exchange messages give nothing back unasked, which would wait for the device") {
  Addresses addresses(64 << 20);
  DeviceArena arena(addresses.source(), small);
  const auto ended = [&] {
    arena.release(arena.allocate(4 << 20));
    return addresses.taken();
  };
  CHECK(ended() == 0);
  arena.keep_idle();
  CHECK(ended() == 4 << 20);
  CHECK(arena.trim() == 4 << 20);
}

TEST_CASE("what is still in use when an arena ends stays taken") {
  Addresses addresses(1 << 20);
  {
    DeviceArena arena(addresses.source(), small);
    arena.release(arena.allocate(3000));
    (void)arena.allocate(100);
  }
  CHECK(addresses.taken() == 4096);
}

TEST_CASE("a steady state takes nothing from the device") {
  Addresses addresses(1 << 20);
  DeviceArena arena(addresses.source(), small);
  const auto step = [&] {
    std::vector<std::byte*> all;
    for (const std::int64_t bytes : {100, 5000, 2300, 900, 30}) all.push_back(arena.allocate(bytes));
    for (std::byte* memory : all) arena.release(memory);
  };
  step();
  const int before = addresses.calls;
  for (int i = 0; i < 10; ++i) step();
  CHECK(addresses.calls == before);
}
