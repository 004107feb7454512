// Whether an artifact is there already, on a file system that may not say.
#include "worker/lead/publish.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "tests/support/scratch.h"

namespace longhaul {

TEST_CASE("publish: an artifact of which the file system says nothing is not taken for one that is missing") {
  const testing::Scratch scratch;
  const std::string loop = scratch.file("loop");  // what lies behind a link to itself nobody can look for
  REQUIRE(::symlink(loop.c_str(), loop.c_str()) == 0);
  Attempt attempt;
  attempt.stage_dir = loop + "/stage";
  const auto unknown = published_artifact(attempt, {});
  REQUIRE_FALSE(unknown.ok());
  CHECK(unknown.error().code == ErrorCode::io);
  attempt.stage_dir = scratch.file("stage");
  const auto missing = published_artifact(attempt, {});
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().code == ErrorCode::not_found);
}

}  // namespace longhaul
