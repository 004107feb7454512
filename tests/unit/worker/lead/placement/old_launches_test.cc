#include "worker/lead/placement/old_launches.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "tests/support/scratch.h"

using namespace longhaul;

TEST_CASE("of many launches the first and the newest stay, and no look removes more than a few files") {
  const testing::Scratch scratch;
  const int launches = OldLaunches::kept + 5, logs = OldLaunches::files_at_a_look + 3;
  for (int launch = 1; launch <= launches; ++launch) {
    const std::string folder = join_path(scratch.path(), std::to_string(launch));
    REQUIRE(make_directories(folder + "/stacks").ok());
    REQUIRE(write_file_renamed(folder + "/stacks/rank-0.txt", "where").ok());
    for (int rank = 0; rank < logs; ++rank)
      REQUIRE(write_file_renamed(folder + "/rank-" + std::to_string(rank) + ".log", "what").ok());
  }
  OldLaunches old;
  CHECK(old.done());
  old.new_launch(scratch.path(), launches);
  CHECK(!old.done());
  old.look();
  CHECK(list_directory(scratch.path())->size() == static_cast<std::size_t>(launches));  // one is half removed
  int looks = 1;
  for (; !old.done() && looks < 100; ++looks) old.look();
  CHECK(looks >= 4 * 2);  // four launches, each with more files than a look removes
  const auto left = list_directory(scratch.path());
  REQUIRE(left.ok());
  CHECK(left->size() == static_cast<std::size_t>(OldLaunches::kept + 1));
  CHECK(file_exists(scratch.path() + "/1/rank-0.log"));
  CHECK(!file_exists(scratch.path() + "/2"));
  CHECK(!file_exists(scratch.path() + "/5"));
  CHECK(file_exists(scratch.path() + "/6/rank-0.log"));
}
