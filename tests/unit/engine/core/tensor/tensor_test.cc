#include "engine/core/tensor/tensor.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "engine/core/tensor/parallel_for.h"

using namespace longhaul;

TEST_CASE("bf16 rounds to nearest even, keeps NaN and overflows to infinity") {
  CHECK(bf16(1.0F).bits == 0x3F80);
  CHECK(bf16(std::bit_cast<float>(0x3F808000U)).bits == 0x3F80);  // half way, even below
  CHECK(bf16(std::bit_cast<float>(0x3F818000U)).bits == 0x3F82);  // half way, even above
  CHECK(bf16(std::bit_cast<float>(0x3F808001U)).bits == 0x3F81);
  CHECK(std::isnan(static_cast<float>(bf16(std::bit_cast<float>(0x7F800001U)))));
  CHECK(std::isinf(static_cast<float>(bf16(std::numeric_limits<float>::max()))));
  CHECK(static_cast<float>(bf16(-2.5F)) == -2.5F);
}

TEST_CASE("memory is counted exactly and given back") {
  MemoryAccount account;
  {
    Tensor a(DType::f32, {3, 5}, &account);
    CHECK(account.bytes_now == 60);
    Tensor b = std::move(a);
    CHECK(account.bytes_now == 60);
    Tensor c(DType::bf16, {7}, &account);
    CHECK(account.bytes_now == 74);
    CHECK(reinterpret_cast<std::uintptr_t>(c.span<bf16>().data()) % 64 == 0);
    CHECK(c.span<bf16>()[6].bits == 0);
  }
  CHECK(account.bytes_now == 0);
  CHECK(account.bytes_peak == 74);
}

TEST_CASE("an arena hands out aligned pieces, rewinds, and remembers its peak") {
  Arena arena(1024);
  View a = arena.allocate(DType::f32, {5});
  CHECK(arena.used_bytes() == 64);
  const auto mark = arena.mark();
  View b = arena.allocate(DType::bf16, {100});
  CHECK(arena.used_bytes() == 64 + 256);
  CHECK(Arena::bytes_for(DType::bf16, {100}) == 256);
  arena.rewind(mark);
  View c = arena.allocate(DType::i32, {1});
  CHECK(c.data() == b.data());
  CHECK(a.data() != c.data());
  CHECK(arena.peak_bytes() == 320);
}

TEST_CASE("views: rows, reshape, text") {
  Tensor t(DType::f32, {4, 3});
  for (std::size_t i = 0; i < 12; ++i) t.span<float>()[i] = static_cast<float>(i);
  const ConstView rows = t.view().rows(1, 3);
  CHECK(rows.size() == 6);
  CHECK(rows.as<float>()[0] == 3.0F);
  CHECK(t.view().reshaped({2, 6}).shape()[-1] == 6);
  CHECK(t.shape().text() == "[4, 3]");
  CHECK(View().empty());
}

TEST_CASE("parallel loops visit every index once, whatever the thread count") {
  for (int threads : {1, 2, 4}) {
    const ComputeContext context(threads);
    std::vector<int> hits(1001, 0);
    parallel_for(context, 1001, 10, [&](std::int64_t b, std::int64_t e) {
      for (std::int64_t i = b; i < e; ++i) ++hits[static_cast<std::size_t>(i)];
    });
    parallel_chunks(context, 1001, 17, [&](std::int64_t b, std::int64_t e) {
      CHECK(b % 17 == 0);
      for (std::int64_t i = b; i < e; ++i) ++hits[static_cast<std::size_t>(i)];
    });
    for (int h : hits) REQUIRE(h == 2);
  }
}
