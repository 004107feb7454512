#include "engine/comm/contribution_check.h"

#include <doctest/doctest.h>

#include <random>

#include "tests/support/seed.h"

using namespace longhaul;

TEST_CASE("checksums of contributions distinguish a sender from a receiver from the way between") {
  const auto all_of = [](auto&& received) {
    std::vector<ContributionPair> pairs;
    for (int from = 0; from < 4; ++from)
      for (int to = 0; to < 4; ++to) {
        const auto given = static_cast<std::uint64_t>(1'000 + from);
        pairs.push_back({from, to, given, received(from, to, given)});
      }
    return pairs;
  };
  CHECK(find_corruption(all_of([](int, int, std::uint64_t given) { return given; })).empty());
  auto found =
      find_corruption(all_of([](int from, int to, std::uint64_t given) { return given ^ (from == 2 && to != 2); }));
  REQUIRE(found.size() == 1);
  CHECK(found[0].rank == 2);
  CHECK(found[0].disagreements == 3);
  found = find_corruption(all_of([](int from, int to, std::uint64_t given) { return given ^ (to == 1 && from != 1); }));
  REQUIRE(found.size() == 1);
  CHECK(found[0].rank == 1);
  found = find_corruption(all_of([](int from, int to, std::uint64_t given) { return given ^ (from == 0 && to == 3); }));
  REQUIRE(found.size() == 1);
  CHECK(found[0].rank == 0);
  CHECK(found[0].other == 3);
}

TEST_CASE("a rank whose own contribution changed before it left is to blame, also where one receiver noticed") {
  std::vector<ContributionPair> pairs;
  for (int from = 0; from < 4; ++from)
    for (int to = 0; to < 4; ++to) pairs.push_back({from, to, 7, from == 3 && (to == 3 || to == 1) ? 8U : 7U});
  auto found = find_corruption(pairs);
  REQUIRE(found.size() == 1);
  CHECK(found[0].rank == 3);
  CHECK(found[0].other == -1);
  // Of two ranks as well, where a sender has one receiver.
  found = find_corruption({{0, 0, 7, 7}, {0, 1, 7, 7}, {1, 0, 7, 8}, {1, 1, 7, 8}});
  REQUIRE(found.size() == 1);
  CHECK(found[0].rank == 1);
  CHECK(found[0].other == -1);
}

TEST_CASE("parts of a contribution cover it, once or for everybody") {
  for (const int ranks : {2, 3, 8})
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{4}, std::size_t{4'000}, std::size_t{400'008}}) {
      CAPTURE(ranks);
      CAPTURE(bytes);
      std::size_t end = 0;
      const bool small = bytes * static_cast<std::size_t>(ranks) <= static_cast<std::size_t>(small_all_reduce_bytes);
      for (int rank = 0; rank < ranks; ++rank) {
        const ContributionPart part = contribution_to(CollectiveKind::all_reduce_sum, bytes, ranks, rank);
        CHECK(part.begin == (small ? 0 : end));
        const auto parts = static_cast<std::size_t>(contribution_parts(CollectiveKind::all_reduce_sum, bytes, ranks));
        const std::size_t which = parts == 1 ? 0 : static_cast<std::size_t>(rank), n = bytes / sizeof(float);
        CHECK(part.begin == n * which / parts * sizeof(float));
        CHECK(part.begin + part.size == n * (which + 1) / parts * sizeof(float));
        end = part.begin + part.size;
      }
      CHECK(end == bytes);
    }
  const ContributionPart row = contribution_to(CollectiveKind::reduce_scatter_sum, 96, 4, 2);
  CHECK(row.begin == 48);
  CHECK(row.size == 24);
}

TEST_CASE("every single flipped bit is found, and at the rank that the part goes to") {
  const std::uint64_t seed = testing::seed(11);
  MESSAGE("seed ", seed);
  std::mt19937_64 random(seed);
  const auto drawn = [&](std::size_t below) { return static_cast<std::size_t>(random() % below); };
  std::size_t flips = 0, missed = 0, wrong_part = 0;
  const auto flip = [](std::vector<float>& values, std::size_t bit) {
    reinterpret_cast<unsigned char*>(values.data())[bit / 8] ^= static_cast<unsigned char>(1U << (bit % 8));
  };
  const auto try_bit_by = [&](ContributionChecksum by, std::vector<float>& values, CollectiveKind kind, int ranks,
                              std::size_t bit) {
    const auto given = contribution_checksums(kind, std::as_bytes(std::span(values)), ranks, by);
    flip(values, bit);
    const auto sent = contribution_checksums(kind, std::as_bytes(std::span(values)), ranks, by);
    flip(values, bit);
    ++flips, missed += given == sent;
    for (int rank = 0; rank < ranks; ++rank) {
      const ContributionPart part = contribution_to(kind, values.size() * sizeof(float), ranks, rank);
      const bool here = bit / 8 >= part.begin && bit / 8 < part.begin + part.size;
      wrong_part += here != (given[static_cast<std::size_t>(rank)] != sent[static_cast<std::size_t>(rank)]);
    }
  };
  const auto try_bit = [&](std::vector<float>& values, CollectiveKind kind, int ranks, std::size_t bit) {
    for (const auto by : {ContributionChecksum::xxh3, ContributionChecksum::words})
      try_bit_by(by, values, kind, ranks, bit);
  };
  std::vector<float> small(24);
  for (float& value : small) value = static_cast<float>(random()) * 1e-19F;
  for (std::size_t bit = 0; bit < small.size() * 32; ++bit) try_bit(small, CollectiveKind::reduce_scatter_sum, 4, bit);
  for (int draw = 0; draw < 2'000; ++draw) {
    const int ranks = 2 + static_cast<int>(drawn(7));
    std::vector<float> values((1 + drawn(6'000)) * static_cast<std::size_t>(ranks));
    for (float& value : values) value = static_cast<float>(random()) * 1e-19F;
    const CollectiveKind kind = drawn(2) == 0 ? CollectiveKind::all_reduce_sum : CollectiveKind::reduce_scatter_sum;
    try_bit(values, kind, ranks, drawn(values.size() * 32));
  }
  MESSAGE(flips, " flips, ", missed, " missed");
  CHECK(missed == 0);
  CHECK(wrong_part == 0);
}
