#include "contracts/control/rendezvous_folder.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "contracts/records/launch.h"
#include "tests/support/scratch.h"

namespace longhaul {

TEST_CASE("store: a name is a file's, in no other folder, and none that is being written") {
  for (const char* good : {"epoch1-axis0-00ff00ff00ff00ff-0", "epoch1-axis0-00ff00ff00ff00ff-from0-to1-tag3-0.rank12",
                           "a", "carried2", "A_b.c"})
    CHECK_MESSAGE(is_store_key(good), good);
  for (const char* bad :
       {"", ".", "..", ".a", "a/b", "../a", "a b", "a\n", "carried", "wanted", "refused", "a.tmp.12.0", "\xc3\xa4"})
    CHECK_MESSAGE(!is_store_key(bad), bad);
  CHECK(is_store_key(std::string(store_key_max, 'a')));
  CHECK(!is_store_key(std::string(store_key_max + 1, 'a')));
  CHECK(!is_store_key(std::string_view("a\0b", 3)));
}

TEST_CASE("store: a launch names the folder, or none") {
  const testing::Scratch scratch;
  Launch launch;
  launch.store_dir = "/dev/shm/longhaul-1/store";
  REQUIRE(write_launch(scratch.file("launch.toml"), launch).ok());
  CHECK(read_launch(scratch.file("launch.toml"))->store_dir == launch.store_dir);
  CHECK(launch_from_value(launch_to_value(Launch{}))->store_dir.empty());
}

}  // namespace longhaul
