#include "worker/lead/placement/grow_back.h"

#include <doctest/doctest.h>

using namespace longhaul;
using Names = std::vector<std::string>;

TEST_CASE("growing back: a node is back once it was fit for long enough without a break") {
  GrowBack growth(10);
  growth.new_launch(0);
  CHECK(growth.look(100'000, {{"n2", false}, {"n3", true}}).empty());
  CHECK(growth.look(109'999, {{"n2", true}, {"n3", true}}).empty());
  CHECK(growth.look(110'000, {{"n2", true}, {"n3", true}}) == Names{"n3"});
  CHECK(growth.look(112'000, {{"n2", true}, {"n3", false}}).empty());  // a break: it begins anew
  CHECK(growth.look(120'000, {{"n2", true}, {"n3", true}}) == Names{"n2"});
  CHECK(growth.look(129'999, {{"n2", true}, {"n3", true}}) == Names{"n2"});
  CHECK(growth.look(130'000, {{"n2", true}, {"n3", true}}) == Names{"n2", "n3"});
  CHECK(growth.look(140'000, {{"n3", true}}) == Names{"n3"});
  CHECK(growth.look(150'000, {{"n2", true}, {"n3", true}}) == Names{"n3"});  // n2 was not among the lost ones
}

TEST_CASE("growing back: no launch is ended for it sooner than that after it began") {
  GrowBack growth(10);
  growth.new_launch(0);
  CHECK(growth.look(5'000, {{"n2", true}}).empty());
  growth.new_launch(14'000);
  CHECK(growth.look(20'000, {{"n2", true}}).empty());
  CHECK(growth.look(23'999, {{"n2", true}}).empty());
  CHECK(growth.look(24'000, {{"n2", true}}) == Names{"n2"});
}

TEST_CASE("growing back: with a time of 0 no node ever is back") {
  GrowBack growth(0);
  growth.new_launch(0);
  for (std::int64_t ms = 0; ms < 10'000'000; ms += 100'000) CHECK(growth.look(ms, {{"n2", true}}).empty());
}
