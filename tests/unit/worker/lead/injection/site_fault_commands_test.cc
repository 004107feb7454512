// Commands of the site run beside the lead: a good end is no news, a bad one is reported once, and one that does not
// end is ended with what it has started.
#include "worker/lead/injection/site_fault_commands.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

struct SiteCommandRig {
  testing::Scratch scratch;
  SystemClock clock;
  SiteFaultCommands commands{clock};

  Status start(const std::string& script, std::int64_t deadline_ms = 10'000) {
    return commands.start("cut_network of rank 1", {"sh", "-c", script}, scratch.file("out"), deadline_ms);
  }
  std::vector<std::string> until_idle() {
    std::vector<std::string> all;
    for (const Deadline deadline(clock, 10'000); !commands.idle(); clock.sleep_ms(2)) {
      REQUIRE(!deadline.passed());
      for (std::string& problem : commands.look()) all.push_back(std::move(problem));
    }
    return all;
  }
};

}  // namespace

TEST_CASE("site fault commands: a good end is no news, a bad one is reported with the last line") {
  SiteCommandRig rig;
  REQUIRE(rig.start("echo all is cut").ok());
  CHECK(rig.until_idle().empty());
  REQUIRE(rig.start("echo looking; echo no such node >&2; exit 3").ok());
  CHECK(rig.until_idle() == std::vector<std::string>{"cut_network of rank 1: sh: exit code 3: no such node"});
  REQUIRE(rig.start("kill -9 $$").ok());
  const auto killed = rig.until_idle();
  REQUIRE(killed.size() == 1);
  CHECK(killed[0].find("killed by signal 9") != std::string::npos);
  const Status absent = rig.commands.start("x", {"/nonexistent/cut"}, rig.scratch.file("out"), 100);
  CHECK(!absent.ok());
  CHECK(rig.commands.idle());
}

TEST_CASE("site fault commands: one past its deadline is ended with all that it has started, and reported once") {
  SiteCommandRig rig;
  REQUIRE(rig.start("sleep 60 & echo $! > " + rig.scratch.file("child") + "; wait", 300).ok());
  const auto problems = rig.until_idle();
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].find("cut_network of rank 1: sh did not end within ") == 0);
  const pid_t child = std::atoi(read_file(rig.scratch.file("child")).value().c_str());
  REQUIRE(child > 0);
  for (const Deadline deadline(rig.clock, 5'000); identify_process(child).ok() && !deadline.passed();)
    rig.clock.sleep_ms(2);
  CHECK(!identify_process(child).ok());
}

}  // namespace longhaul
