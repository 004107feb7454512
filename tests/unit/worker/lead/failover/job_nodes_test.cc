#include "worker/lead/failover/job_nodes.h"

#include <doctest/doctest.h>

using namespace longhaul;

TEST_CASE("nodes of a job as squeue has them") {
  CHECK(parse_job_nodes("n[1-2,4]\n").value() == std::vector<std::string>{"n1", "n2", "n4"});
  CHECK(parse_job_nodes("n7").value() == std::vector<std::string>{"n7"});
  for (const char* text : {"", "\n", "n[1-"})
    CHECK_MESSAGE(parse_job_nodes(text).error().code == ErrorCode::unavailable, text);
}
