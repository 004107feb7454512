// Pages of keys and values: who has which, what was promised, and that all come back.
#include "engine/model/inference/cache/kv_pool.h"

#include <doctest/doctest.h>

#include <set>

#include "base/digest/philox.h"
#include "engine/model/inference/cache/kv_cache.h"
#include "tests/unit/engine/model/reference_model.h"

using namespace longhaul;

TEST_CASE("a text has room for what it was promised, and takes pages as its tokens come") {
  const ModelShape shape = test::tiny_shape();
  MemoryAccount memory;
  KvPool pool(shape, 5, DType::bf16, &memory);
  CHECK(memory.bytes_now == KvPool::bytes_for(shape, 5, DType::bf16));
  CHECK(KvPool::bytes_for(shape, 5, DType::bf16) == KvCache::bytes_for(shape, 5 * kKvPageTokens, DType::bf16));
  KvCache a(pool), b(pool);
  CHECK(a.length_max() == 0);
  REQUIRE(a.reserve(2 * kKvPageTokens + 1));
  CHECK(a.length_max() == 2 * kKvPageTokens + 1);
  CHECK(pool.promised() == 3);
  CHECK(pool.used() == 0);
  CHECK_FALSE(b.reserve(2 * kKvPageTokens + 1));
  CHECK(b.length_max() == 0);
  REQUIRE(b.reserve(2 * kKvPageTokens));
  a.hold(kKvPageTokens), a.advance(kKvPageTokens);
  b.hold(1), b.advance(1);
  CHECK(pool.used() == 2);
  a.hold(1), a.advance(1);
  CHECK(a.pages().size() == 2);
  CHECK(b.pages().front() != a.pages()[0]);
  CHECK(b.pages().front() != a.pages()[1]);
  a.truncate(3);
  CHECK(a.pages().size() == 1);
  CHECK(pool.promised() == 5);
  const KvCache moved = std::move(a);
  CHECK(pool.used() == 2);
  CHECK(b.reserve(0));
  CHECK(pool.promised() == 3);
  CHECK(b.length() == 0);
}

TEST_CASE("texts that begin alike hold the pages that their beginning fills, which are free once nobody holds them") {
  KvPool pool(test::tiny_shape(), 9, DType::bf16);
  KvCache first(pool), second(pool), third(pool);
  constexpr std::int64_t beginning = 2 * kKvPageTokens + 5;
  for (KvCache* text : {&first, &second, &third}) REQUIRE(text->reserve(3 * kKvPageTokens));
  first.hold(beginning), first.advance(beginning);
  CHECK(second.copy_beginning(first, beginning) == 2 * kKvPageTokens);
  CHECK(third.copy_beginning(first, kKvPageTokens - 1) == 0);
  CHECK(third.copy_beginning(first, kKvPageTokens) == kKvPageTokens);
  CHECK(second.length() == 2 * kKvPageTokens);
  CHECK(pool.used() == 3);
  second.hold(1), second.advance(1);  // behind what it shares, in a page of its own
  CHECK(pool.used() == 4);
  CHECK(second.pages()[1] == first.pages()[1]);
  CHECK(second.pages()[2] != first.pages()[2]);
  CHECK(first.reserve(0));
  CHECK(pool.used() == 3);
  CHECK(second.reserve(0));
  CHECK(pool.used() == 1);
  CHECK(third.reserve(0));
  CHECK(pool.used() == 0);
  CHECK(pool.promised() == 0);
}

TEST_CASE("pages are nobody's or one text's, over thousands of texts, and none is lost") {
  const std::uint64_t seed = 3;
  CAPTURE(seed);
  PhiloxSequence draw(seed, 1);
  ModelShape shape = test::tiny_shape();
  shape.num_hidden_layers = 1;
  KvPool pool(shape, 24, DType::bf16);
  std::vector<KvCache> texts;
  int refused = 0, begun = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t one = static_cast<std::size_t>(draw.next_below(9));
    if (one >= texts.size()) {
      KvCache text(pool);
      const bool room = text.reserve(static_cast<std::int64_t>(1 + draw.next_below(100)));
      room ? ++begun : ++refused;
      if (room) texts.push_back(std::move(text));
    } else if (draw.next_below(4) == 0) {
      texts.erase(texts.begin() + static_cast<std::ptrdiff_t>(one));
    } else {
      KvCache& text = texts[one];
      const auto left = static_cast<std::uint64_t>(text.length_max() - text.length());
      const auto count = static_cast<std::int64_t>(draw.next_below(left + 1));
      text.hold(count), text.advance(count);
      if (draw.next_below(8) == 0)
        text.truncate(static_cast<std::int64_t>(draw.next_below(static_cast<std::uint64_t>(text.length()) + 1)));
    }
    std::set<std::int32_t> held;
    std::int64_t used = 0, promised = 0;
    for (const KvCache& text : texts) {
      used += KvPool::pages_for(text.length()), promised += KvPool::pages_for(text.length_max());
      held.insert(text.pages().begin(), text.pages().end());
    }
    REQUIRE(pool.used() == used);
    REQUIRE(pool.promised() == promised);
    REQUIRE(static_cast<std::int64_t>(held.size()) == used);
    REQUIRE((held.empty() || (*held.begin() >= 0 && *held.rbegin() < pool.pages())));
  }
  CHECK(begun > 2000);
  CHECK(refused > 500);
  texts.clear();
  CHECK(pool.used() == 0);
  CHECK(pool.promised() == 0);
}
