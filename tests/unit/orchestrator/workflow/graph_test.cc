#include "orchestrator/workflow/graph.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

namespace longhaul {

TEST_CASE("order keeps the file's order where it may") {
  const StageOrder order = order_stages({{2}, {}, {}, {0, 1}});
  CHECK(order.order == std::vector<int>{1, 2, 0, 3});
  CHECK(order.loops.empty());
}

TEST_CASE("loops are found apart from what only waits for them") {
  // 0 -> 1 -> 0, 2 waits for 0; 3 -> 4 -> 5 -> 3; 6 is free
  const StageOrder order = order_stages({{1}, {0}, {0}, {4}, {5}, {3}, {}});
  CHECK(order.order == std::vector<int>{6});
  CHECK(order.loops == std::vector<std::vector<int>>{{0, 1}, {3, 4, 5}});
}

TEST_CASE("any acyclic graph is ordered whole, any planted loop is found") {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const int count = 2 + static_cast<int>(random() % 40);
    std::vector<int> hidden(count);  // a hidden order; edges go along it
    for (int i = 0; i < count; ++i) hidden[i] = i;
    std::shuffle(hidden.begin(), hidden.end(), random);
    std::vector<std::vector<int>> needs(count);
    for (int i = 1; i < count; ++i)
      for (int k = 0; k < 3; ++k) needs[hidden[i]].push_back(hidden[random() % i]);
    const StageOrder order = order_stages(needs);
    REQUIRE(order.order.size() == static_cast<std::size_t>(count));
    CHECK(order.loops.empty());
    std::vector<int> place(count);
    for (int i = 0; i < count; ++i) place[order.order[i]] = i;
    for (int i = 0; i < count; ++i)
      for (int need : needs[i]) CHECK(place[need] < place[i]);
    needs[hidden[0]].push_back(hidden[count - 1]);  // a loop if the last one reaches the first: always, by its needs
    const StageOrder looped = order_stages(needs);
    CHECK(looped.order.size() < static_cast<std::size_t>(count));
    REQUIRE(!looped.loops.empty());
    const auto& loop = looped.loops[0];
    for (std::size_t i = 0; i < loop.size(); ++i) {
      const int next = loop[(i + 1) % loop.size()];
      CHECK(std::find(needs[loop[i]].begin(), needs[loop[i]].end(), next) != needs[loop[i]].end());
    }
  }
}

}  // namespace longhaul
