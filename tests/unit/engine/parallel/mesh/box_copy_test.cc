#include "engine/parallel/mesh/box_copy.h"

#include <doctest/doctest.h>

#include <numeric>

#include "base/digest/philox.h"

namespace longhaul {
namespace {

std::vector<float> iota(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

// The elements of a box of iota(shape), one by one.
std::vector<float> box_of_iota(const std::vector<std::int64_t>& shape, const Box& box) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < box.extent[0]; ++i)
    for (std::int64_t j = 0; j < box.extent[1]; ++j)
      for (std::int64_t k = 0; k < box.extent[2]; ++k)
        values.push_back(
            static_cast<float>(((box.offset[0] + i) * shape[1] + box.offset[1] + j) * shape[2] + box.offset[2] + k));
  return values;
}

}  // namespace

TEST_CASE("any range of any box finds its place in any other box of the tensor, and nothing else is touched") {
  constexpr std::uint64_t seed = 20;
  CAPTURE(seed);
  PhiloxSequence draw(seed, 1);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(draw.next_below(static_cast<std::uint64_t>(n)));
  };
  for (int round = 0; round < 500; ++round) {
    const std::vector<std::int64_t> shape = {1 + below(4), 1 + below(5), 1 + below(6)};
    const auto random_box = [&] {
      Box box;
      for (const std::int64_t size : shape) {
        box.offset.push_back(below(size));
        box.extent.push_back(1 + below(size - box.offset.back()));
      }
      return box;
    };
    const Box from = random_box(), to = random_box();
    const std::int64_t begin = below(from.elements()), end = begin + 1 + below(from.elements() - begin);
    const std::vector<float> source = box_of_iota(shape, from), expected = box_of_iota(shape, to);
    std::vector<float> out(expected.size(), -1.0F);
    const std::int64_t copied = copy_between_boxes(
        std::span(source).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)), from, begin,
        end, to, out);
    std::int64_t there = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto in_piece =
          std::find(source.begin() + begin, source.begin() + end, expected[i]) != source.begin() + end;
      CHECK(out[i] == (in_piece ? expected[i] : -1.0F));
      there += in_piece;
    }
    CHECK(copied == there);
  }
}

TEST_CASE("shards put together are the whole, and cut from it are the shards") {
  const std::vector<std::int64_t> shape = {5, 7};
  const std::vector<float> whole = iota(35);
  std::vector<float> again(35, -1.0F);
  for (int part = 0; part < 2; ++part) {
    const Box columns{{0, part * 4}, {5, part == 0 ? 4 : 3}};
    std::vector<float> shard(static_cast<std::size_t>(columns.elements()));
    CHECK(copy_between_boxes(whole, whole_box(shape), 0, 35, columns, shard) == columns.elements());
    CHECK(copy_between_boxes(shard, columns, 0, columns.elements(), whole_box(shape), again) == columns.elements());
  }
  CHECK(again == whole);
}

}  // namespace longhaul
