// What makes an agent the standby, and when it is none any more.
#include "worker/agent/leads/stand_in.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "base/files/files.h"
#include "base/value/json.h"
#include "tests/support/scratch.h"

using namespace longhaul;

namespace {
namespace stand_in {

struct Rig {
  testing::Scratch scratch;
  SystemClock clock;
  Logger log{"agent", "host=n2"};
  StandIn it{{scratch.file("lead"), scratch.path(), scratch.file("lead-address"), "n2"}, clock, log};

  Rig() {
    REQUIRE(write_file_atomic(scratch.file("lead"), "#!/bin/sh\nsleep 0.2\n").ok());
    REQUIRE(::chmod(scratch.file("lead").c_str(), 0700) == 0);
    it.keep(parse_json(R"({"whole": true, "epoch": 3, "launch": 3})").value(), 3);
    REQUIRE(it.is_standby());
  }
  void wait() {
    for (const Deadline deadline(clock, 20'000); !it.poll() && !deadline.passed(); clock.sleep_ms(5)) {
    }
    REQUIRE(!it.running());
  }
};

}  // namespace stand_in
}  // namespace

TEST_CASE("stand-in: a standby is none any more once the lead names another one") {
  stand_in::Rig rig;
  CHECK(!rig.it.gives_way_to("n2"));
  CHECK(rig.it.is_standby());
  CHECK(rig.it.gives_way_to("n3"));
  CHECK(!rig.it.is_standby());
  CHECK(!rig.it.gives_way_to("n3"));
}

TEST_CASE("stand-in: what was known before the lead that it started has named a standby is not used a second time") {
  stand_in::Rig rig;
  rig.it.start({}, {3, "n1"}, {3, "n1"});
  REQUIRE(rig.it.running());
  CHECK(!rig.it.gives_way_to("n3"));  // it may be needed until that lead has sent another its state
  CHECK(rig.it.is_standby());
  rig.wait();
  CHECK(!rig.it.is_standby());
}

TEST_CASE("stand-in: a lead that ended before it named anybody is followed by another one from the same state") {
  stand_in::Rig rig;
  rig.it.start({}, {3, "n1"}, {3, "n1"});
  REQUIRE(rig.it.running());
  rig.wait();
  CHECK(rig.it.is_standby());
}
