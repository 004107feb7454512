#include "engine/comm/tree_sum.h"

#include <doctest/doctest.h>

#include "base/digest/philox.h"

using namespace longhaul;

namespace {
std::vector<float> tree_term(std::uint64_t seed, std::uint64_t index, std::size_t n) {
  std::vector<float> values;
  for (std::size_t i = 0; i < n; ++i) values.push_back(static_cast<float>(Philox{seed, index}.normal(i)));
  return values;
}
}  // namespace

TEST_CASE("terms added one by one give the bits of the tree over all, for every number of terms") {
  constexpr std::size_t n = 2'500;
  for (std::size_t count = 1; count <= 17; ++count) {
    CAPTURE(count);
    TreeAccumulator accumulator(n);
    std::vector<std::vector<float>> terms;
    std::vector<const float*> pointers;
    for (std::size_t t = 0; t < count; ++t) terms.push_back(tree_term(5, t, n));
    for (const auto& t : terms) {
      accumulator.add(t);
      pointers.push_back(t.data());
    }
    CHECK(accumulator.terms() == static_cast<std::int64_t>(count));
    std::vector<float> one_by_one(n), at_once(n);
    accumulator.finish(one_by_one);
    tree_sum(pointers, at_once);
    CHECK(one_by_one == at_once);
    CHECK(accumulator.terms() == 0);
  }
}

TEST_CASE("the tree is over pairs of neighbours, not from left to right") {
  const std::vector<float> a = {1e8F}, b = {1.0F}, c = {1.0F}, d = {-1e8F};
  const float* terms[] = {a.data(), b.data(), c.data(), d.data()};
  std::vector<float> total(1);
  tree_sum(terms, total);
  CHECK(total[0] == (1e8F + 1.0F) + (1.0F + -1e8F));
  tree_max(terms, total);
  CHECK(total[0] == 1e8F);
}

TEST_CASE("an accumulator of nothing is zero, and can be used again") {
  TreeAccumulator accumulator(3);
  std::vector<float> out(3, 9.0F);
  accumulator.finish(out);
  CHECK(out == std::vector<float>{0.0F, 0.0F, 0.0F});
  const std::vector<float> term = {1.0F, 2.0F, 3.0F};
  accumulator.add(term);
  accumulator.finish(out);
  CHECK(out == term);
}
