#include "orchestrator/scheduler/lost_node.h"

#include <doctest/doctest.h>

namespace longhaul {

TEST_CASE("the one node of a job that Slurm lost; several at once point at none of them") {
  const auto lost = [](const std::string& nodes, const std::string& states) {
    std::vector<SlurmNode> all;
    for (int i = 1; i <= 4; ++i) {
      SlurmNode node;
      node.name = "n" + std::to_string(i);
      node.state = "ALLOCATED";
      if (states[static_cast<std::size_t>(i - 1)] == 'd') node.state = "DOWN+NOT_RESPONDING";
      if (states[static_cast<std::size_t>(i - 1)] == 'f') node.state = "MIXED+FAIL";
      if (states[static_cast<std::size_t>(i - 1)] == 'r') node.state = "ALLOCATED+DRAIN";
      all.push_back(node);
    }
    return lost_node(nodes, all);
  };
  CHECK(lost("n[1-4]", "..d.") == "n3");
  CHECK(lost("n[1-4]", ".f..") == "n2");
  CHECK(lost("n[1-4]", "r...").empty());  // drained: its jobs go on
  CHECK(lost("n[1-4]", ".dd.").empty());
  CHECK(lost("n[1-2]", "..d.").empty());  // another job's
  CHECK(lost("n[1,3]", ".dd.") == "n3");
  CHECK(lost("", "d...").empty());
  CHECK(lost("n[1-", "d...").empty());
}

}  // namespace longhaul
