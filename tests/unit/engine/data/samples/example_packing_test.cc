// Every example lies whole in one row; little is left over; the same seed gives the same rows.
#include "engine/data/samples/example_packing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "base/digest/philox.h"

using namespace longhaul;

TEST_CASE("packing: every example once, no row too long, few rows, the same for the same seed") {
  const std::uint64_t seed = 5;
  CAPTURE(seed);
  PhiloxSequence random(seed);
  for (int round = 0; round < 20; ++round) {
    const auto capacity = static_cast<std::int64_t>(16 + random.next_below(500));
    std::vector<std::int64_t> lengths(random.next_below(400));
    for (std::int64_t& length : lengths)
      length = 1 + static_cast<std::int64_t>(random.next_below(static_cast<std::uint64_t>(capacity)) *
                                             random.next_below(100) / 100);
    const auto rows = pack_examples(lengths, capacity, 9);
    std::vector<int> seen(lengths.size(), 0);
    for (const auto& row : rows) {
      std::int64_t tokens = 0;
      for (const std::int32_t example : row) {
        ++seen[static_cast<std::size_t>(example)];
        tokens += lengths[static_cast<std::size_t>(example)];
      }
      CHECK(tokens <= capacity);
      CHECK(!row.empty());
    }
    CHECK(std::ranges::all_of(seen, [](int count) { return count == 1; }));
    // `fewest` is a bound that no packing goes below.
    const std::int64_t total = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    std::int64_t more_than_half = 0;
    for (const std::int64_t length : lengths) more_than_half += 2 * length > capacity;
    const std::int64_t fewest = std::max((total + capacity - 1) / capacity, more_than_half);
    CHECK(static_cast<double>(rows.size()) <= 1.4 * static_cast<double>(fewest) + 1);
    CHECK(pack_examples(lengths, capacity, 9) == rows);
  }
  const std::vector<std::int64_t> equal(40, 10);
  CHECK(pack_examples(equal, 20, 1) != pack_examples(equal, 20, 2));
  CHECK(pack_examples(equal, 20, 1).size() == 20);
}
