// Yes, no, or an error: what cannot be known is not absent.
#include "base/files/file_query.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "base/files/files.h"
#include "tests/support/scratch.h"

using namespace longhaul;

TEST_CASE("a file is there, is not there, or cannot be known") {
  const testing::Scratch scratch;
  CHECK_FALSE(*is_there(scratch.file("a")));
  CHECK_FALSE(*is_there(scratch.file("no/folder/a")));
  REQUIRE(write_file_atomic(scratch.file("a"), "").ok());
  CHECK(*is_there(scratch.file("a")));
  CHECK_FALSE(*is_there(scratch.file("a/below")));  // a file is no folder
  REQUIRE(::symlink("nowhere", scratch.file("link").c_str()) == 0);
  CHECK(*is_there(scratch.file("link")));
  const auto unknown = is_there(scratch.file(std::string(5000, 'x')));  // ENAMETOOLONG
  REQUIRE_FALSE(unknown.ok());
  CHECK(unknown.error().code == ErrorCode::io);
}
