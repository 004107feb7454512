// Nodes and tasks that follow from one another, as sbatch derives them.
#include "orchestrator/slurm_helper/job_sizes.h"

#include <doctest/doctest.h>

namespace longhaul {
namespace {

JobSizes of_nodes(std::uint32_t least, std::uint32_t most) {
  JobSizes sizes;
  sizes.nodes_min = least, sizes.nodes_max = most, sizes.nodes_set = true;
  return sizes;
}

TEST_CASE("a fixed number of nodes says how many tasks there are, a range does not") {
  const JobSizes fixed = derive_sizes(of_nodes(3, 3), {.tasks_per_node = 4});
  CHECK(fixed.tasks_set);
  CHECK(fixed.tasks == 12);
  const JobSizes range = derive_sizes(of_nodes(2, 4), {.tasks_per_node = 4});
  CHECK(!range.tasks_set);
  CHECK(range.nodes_max == 4);
}

TEST_CASE("listed hosts are the least that a job has") {
  const JobSizes listed = derive_sizes({}, {.listed_nodes = 3});
  CHECK(listed.nodes_set);
  CHECK(listed.nodes_min == 3);
  CHECK(!listed.tasks_set);
  CHECK(listed.tasks == 3);
  CHECK(derive_sizes(of_nodes(5, 5), {.listed_nodes = 3}).nodes_min == 5);
}

TEST_CASE("sockets, cores and threads of each node multiply its tasks") {
  const JobSizes sizes = derive_sizes(of_nodes(2, 2), {.tasks_of_node = {2, 8}});
  CHECK(sizes.tasks_set);
  CHECK(sizes.tasks == 32);
}

TEST_CASE("fewer tasks than nodes leave nodes out") {
  JobSizes asked = of_nodes(4, 8);
  asked.tasks = 3, asked.tasks_set = true;
  const JobSizes sizes = derive_sizes(asked, {});
  CHECK(sizes.nodes_min == 3);
  CHECK(sizes.nodes_max == 3);
  asked.tasks = 6;
  CHECK(derive_sizes(asked, {}).nodes_min == 4);
  CHECK(derive_sizes(asked, {}).nodes_max == 6);
}

}  // namespace
}  // namespace longhaul
