#include "engine/data/samples/example_packing.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/digest/philox.h"
#include "base/error/result.h"
#include "base/text/text.h"

namespace longhaul {
namespace {
constexpr std::uint64_t packing_stream = 0x9ACC000000000000ULL;  // of the run's seed, apart from its other uses
}

std::vector<std::vector<std::int32_t>> pack_examples(std::span<const std::int64_t> lengths, std::int64_t capacity,
                                                     std::uint64_t seed) {
  const Philox random{seed, packing_stream};
  std::vector<std::uint64_t> draw(lengths.size());
  for (std::size_t i = 0; i < draw.size(); ++i) draw[i] = random.u64(i);
  std::vector<std::int32_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [](std::int32_t i) { return static_cast<std::size_t>(i); };
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    if (lengths[at(a)] != lengths[at(b)]) return lengths[at(a)] > lengths[at(b)];
    return draw[at(a)] != draw[at(b)] ? draw[at(a)] < draw[at(b)] : a < b;
  });
  std::vector<std::vector<std::int32_t>> rows;
  std::multimap<std::int64_t, std::size_t> space;  // left in a row; equal ones in the order they came to be
  for (const std::int32_t example : order) {
    const std::int64_t length = lengths[at(example)];
    LH_ASSERT(length >= 1 && length <= capacity, format("an example of {} tokens for rows of {}", length, capacity));
    std::size_t row = rows.size();
    std::int64_t left = capacity;
    if (const auto fits = space.lower_bound(length); fits != space.end()) {
      row = fits->second, left = fits->first;
      space.erase(fits);
    } else {
      rows.emplace_back();
    }
    rows[row].push_back(example);
    if (left > length) space.emplace(left - length, row);
  }
  return rows;
}

}  // namespace longhaul
