#include "worker/lead/monitor/rank_end.h"

#include <doctest/doctest.h>

using namespace longhaul;

TEST_CASE("rank end: a page says an exit code, or it says none") {
  CHECK(reported_exit_code("failed 7") == 7);
  CHECK(reported_exit_code("failed 137") == 137);
  for (const char* none : {"", "failed", "failed ", "failed 0", "failed -1", "failed 7x", "finished", "all-reduce"}) {
    CAPTURE(none);
    CHECK_FALSE(reported_exit_code(none));
  }
}

TEST_CASE("rank end: what a rank says of itself comes before how its launcher ended the others") {
  const ExitStatus by_mpirun{137, 0}, killed{-1, 9};
  CHECK(end_of_rank("failed 7", by_mpirun).code == 7);
  CHECK(end_of_rank("failed 7", killed).code == 7);
  CHECK(end_of_rank("failed 7", killed).signal == 0);
  // A rank that was killed says nothing: then the launcher knows.
  CHECK(end_of_rank("all-reduce", by_mpirun).code == 137);
  CHECK(end_of_rank("all-reduce", killed).signal == 9);
}
