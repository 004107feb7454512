// A lead whose address is gone, and of whose job it cannot be known whether it has ended.
#include <doctest/doctest.h>
#include <unistd.h>

#include "base/files/files.h"
#include "tests/support/scratch.h"
#include "worker/lead/agents/agent_table.h"

namespace longhaul {

TEST_CASE(
    "agents: whether the job has its record is not known: the address is not written beside it, nobody is followed") {
  const testing::Scratch scratch;
  SystemClock clock;
  Logger log("test", "");
  const std::string address = scratch.file("address"), loop = scratch.file("loop");
  // Every question about what is below a link to itself is answered by an error.
  REQUIRE(::symlink(loop.c_str(), loop.c_str()) == 0);
  const AgentTableOptions options{"key", address, scratch.file("secret"), "127.0.0.1",
                                  5,     false,   {"n1", "n2"},           join_path(loop, "record")};
  const auto table = AgentTable::open(options, clock, log);
  REQUIRE(table.ok());
  REQUIRE(remove_tree(address).ok());
  (*table)->look_for_successor();
  CHECK(!(*table)->superseded());
  CHECK(!file_exists(address));
  REQUIRE(::unlink(loop.c_str()) == 0);
  (*table)->look_for_successor();
  CHECK(!(*table)->superseded());
  CHECK(file_exists(address));
}

}  // namespace longhaul
