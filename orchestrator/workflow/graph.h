// Order of stages. Pure: numbers in, numbers out. Nodes count in the order of the workflow file.
#pragma once

#include <vector>

namespace longhaul {

struct StageOrder {
  std::vector<int>
      order;  // every node after those it needs; otherwise as in the file. Without nodes of or behind loops
  std::vector<std::vector<int>>
      loops;  // each starts with its first node of the file and names what that one needs next
};
// needs[i]: the nodes that must end before node i. O(nodes + edges), plus one pass per loop.
StageOrder order_stages(const std::vector<std::vector<int>>& needs);

}  // namespace longhaul
