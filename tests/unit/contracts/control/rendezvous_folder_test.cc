#include "contracts/control/rendezvous_folder.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "contracts/records/launch.h"
#include "tests/support/scratch.h"

namespace longhaul {

TEST_CASE("words: a name is a file's, in no other folder, and none that is being written") {
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

TEST_CASE("words: a launch names the folder, or none") {
  const testing::Scratch scratch;
  Launch launch;
  launch.words_dir = "/dev/shm/longhaul-1/words";
  REQUIRE(write_launch(scratch.file("launch.toml"), launch).ok());
  CHECK(read_launch(scratch.file("launch.toml"))->words_dir == launch.words_dir);
  CHECK(launch_from_value(launch_to_value(Launch{}))->words_dir.empty());
}

}  // namespace longhaul
