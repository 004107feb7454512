// Two nodes that try each other's ports and their shared folder: here two threads of one.
#include "worker/doctor/pair_checks.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <thread>
#include <utility>

#include "base/files/files.h"
#include "tests/support/scratch.h"

using namespace longhaul;

namespace {

std::pair<Value, Value> both(const PairOrder& order) {
  Value first, second;
  const auto run = [&](int self, Value& found) {
    SystemClock clock;
    PairOrder own = order;
    own.self = self;
    found = check_pair(own, clock);
  };
  std::thread other([&] { run(1, second); });
  run(0, first);
  other.join();
  return {first, second};
}

}  // namespace

TEST_CASE("pair checks: both reach each other, and of each name one wins") {
  testing::Scratch scratch;
  const auto [first, second] = both({scratch.path(), 0, 2, {61500, 61510}, 20'000});
  for (const Value* found : {&first, &second}) {
    CHECK(found->get_bool("met"));
    CHECK(found->get_integer("port") >= 61500);
    CHECK(found->get_integer("torn", -1) == 0);
    const Value* connects = found->find("connects");
    REQUIRE(connects);
    bool one = false;
    for (const Value& way : connects->as_array()) one = one || way.get_bool("ok");
    CHECK(one);
    REQUIRE(found->find("modes"));
    CHECK(found->find("modes")->size() == 2);
    for (const Value& mode : found->find("modes")->as_array()) CHECK(mode.get_bool("ok"));
    CHECK(std::abs(found->get_integer("file_clock_off_ms")) < 1'000);
  }
  CHECK(first.get_integer("exclusive") + second.get_integer("exclusive") == first.get_integer("rounds"));
  CHECK(first.get_integer("linked") + second.get_integer("linked") == first.get_integer("rounds"));
}

TEST_CASE("pair checks: whoever is alone says so after its time") {
  testing::Scratch scratch;
  SystemClock clock;
  const Value found = check_pair({scratch.path(), 0, 2, {}, 200}, clock);
  CHECK(!found.get_bool("met"));
  CHECK(!found.find("rounds"));
}
