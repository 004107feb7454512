// Which processes are the job's, from an agent to the health program beside it.
#include "worker/protocol/node/job_pids.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/files/files.h"

namespace longhaul {

TEST_CASE("job pids: a line is read as it was written, and another line is none") {
  for (const std::set<int>& pids : {std::set<int>{}, std::set<int>{7}, std::set<int>{12, 13, 2147483647}}) {
    std::string line = job_pids_line(pids);
    REQUIRE(line.back() == '\n');
    line.pop_back();
    CHECK(job_pids_from_line(line) == pids);
  }
  for (const char* wrong : {"", "pid 7", "pids x", "pids 7 -1", "pids 0", "pids 99999999999", "pids 7  8", "7"})
    CHECK_MESSAGE(!job_pids_from_line(wrong), wrong);
}

TEST_CASE("job pids: the newest whole line counts, a reader never waits, and keeps what it knows at the end") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  FileDescriptor read_end(ends[0]), write_end(ends[1]);
  const auto say = [&](const std::string& text) {
    REQUIRE(::write(write_end.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  };
  JobPidsReader reader(read_end.get());
  CHECK(!reader.newest());
  say("pids 5");
  CHECK(!reader.newest());
  say("\npids 6 7\nnonsense\npids 8 ");
  CHECK(reader.newest() == std::set<int>{6, 7});
  say("9\n");
  CHECK(reader.newest() == std::set<int>{8, 9});
  write_end.reset();
  CHECK(reader.newest() == std::set<int>{8, 9});
}

}  // namespace longhaul
