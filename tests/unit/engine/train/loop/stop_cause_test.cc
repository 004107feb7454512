#include "engine/train/loop/stop_cause.h"

#include <doctest/doctest.h>

#include <csignal>

using namespace longhaul;

TEST_CASE("stop cause: what was known, and no more") {
  CHECK(StopCause{{}, 4, 0}.text() == "the time is nearly over");
  CHECK(StopCause{{}, 4, 0}.by_own_timer());
  CHECK(StopCause{{0}, 1, SIGTERM}.text() == "asked to stop by SIGTERM");
  CHECK(StopCause{{2}, 4, SIGTERM}.text() == "rank 2: asked to stop by SIGTERM");
  CHECK_FALSE(StopCause{{2}, 4, SIGTERM}.by_own_timer());
  CHECK(StopCause{{1, 3}, 4, SIGINT}.text() == "ranks 1, 3 were asked to stop by SIGINT");
  CHECK(StopCause{{0, 1, 2, 3}, 4, SIGUSR1}.text() == "all ranks were asked to stop by SIGUSR1");
  CHECK(StopCause{{0, 1, 2, 3}, 4, 0}.text() == "all ranks were asked to stop");
  CHECK(StopCause{{0, 1, 2, 3, 4, 5, 6, 7, 8}, 16, SIGTERM}.text() == "9 of 16 ranks were asked to stop by SIGTERM");
}
