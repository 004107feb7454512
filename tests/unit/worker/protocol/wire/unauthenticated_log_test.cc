#include "worker/protocol/wire/unauthenticated_log.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "tests/support/scratch.h"

using namespace longhaul;

TEST_CASE("trust: of strangers the first is logged at once, then one line a minute says how many came") {
  const testing::Scratch scratch;
  const std::string path = join_path(scratch.path(), "log");
  ManualClock clock;
  Logger log("test", "", LogLevel::info, path);
  UnauthenticatedLog strangers("connection_refused", clock, log);
  const auto lines = [&] {
    std::vector<std::string> all = split(read_file(path).value(), '\n');
    all.pop_back();
    return all;
  };
  strangers.look();
  strangers.note("10.0.0.1", "it is a browser's");
  REQUIRE(lines().size() == 1);
  CHECK(ends_with(lines()[0],
                  "event=connection_refused times=1 addresses=1 last_from='10.0.0.1' "
                  "last_reason='it is a browser?s'"));
  for (int i = 0; i < 100'000; ++i) strangers.note(format("10.0.{}.1", i % 3), "\n" + std::string(1'000, '\x1b'));
  CHECK(lines().size() == 1);
  clock.advance_ms(59'000);
  strangers.look();
  CHECK(lines().size() == 1);
  clock.advance_ms(1'001);
  strangers.look();
  REQUIRE(lines().size() == 2);
  CHECK(lines()[1].find("times=100000 addresses=3 ") != std::string::npos);
  CHECK(lines()[1].size() < 500);
  clock.advance_ms(600'000);
  strangers.look();
  CHECK(lines().size() == 2);  // nobody came
  for (int i = 0; i < 1'000; ++i) strangers.note(std::to_string(i), "x");
  CHECK(lines().size() == 3);
}
