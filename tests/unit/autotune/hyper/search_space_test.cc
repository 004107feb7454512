#include "autotune/hyper/search_space.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "tests/support/seed.h"
#include "tests/unit/autotune/hyper/toy_search.h"

namespace longhaul::hyper {

TEST_CASE("coordinates become values on the parameter's own scale") {
  const SearchSpace space({toy::range("lr", 1e-4, 1e-2, "log"), toy::range("decay", 0, 0.2),
                           toy::range("steps", 10, 12, "linear", true), toy::list("schedule", {"a", "b"})});
  const Value middle = space.at(std::vector<double>{0.5, 0.5, 0.5, 0.5});
  CHECK(middle.get_number("lr") == doctest::Approx(1e-3));
  CHECK(middle.get_number("decay") == doctest::Approx(0.1));
  CHECK(middle.find("steps")->is_integer());
  CHECK(middle.get_integer("steps") == 11);
  CHECK(middle.get_string("schedule") == "b");
  const Value low = space.at(std::vector<double>{0, 0, 0, 0}), high = space.at(std::vector<double>{1, 1, 1, 1});
  CHECK(low.get_number("lr") == doctest::Approx(1e-4));
  CHECK(low.get_integer("steps") == 10);
  CHECK(high.get_number("lr") == doctest::Approx(1e-2));
  CHECK(high.get_integer("steps") == 12);
  CHECK(high.get_string("schedule") == "b");
}

TEST_CASE("each value of a list, of whole numbers and of steps has the same share of the range") {
  HyperParameter stepped = toy::range("x", 0.1, 0.5);
  stepped.step = 0.1;  // 0.1 + 4 * 0.1 is a hair above 0.5
  for (const HyperParameter& p : {stepped, toy::range("x", 1, 5, "linear", true), toy::list("x", {1, 2, 3, 4, 5})}) {
    const SearchSpace space({p});
    CHECK(space.levels(0) == 5);
    std::map<double, int> counts;
    for (int i = 0; i < 1000; ++i) ++counts[space.at(std::vector<double>{(i + 0.5) / 1000}).get_number("x")];
    CHECK(counts.size() == 5);
    for (const auto& [value, count] : counts) CHECK(count == 200);
  }
}

TEST_CASE("a configuration has a place that leads back to it, and one that is not of the space has none") {
  const std::uint64_t seed = testing::seed(11);
  CAPTURE(seed);
  HyperParameter stepped = toy::range("stepped", -1, 1);
  stepped.step = 0.25;
  const SearchSpace space({toy::range("lr", 1e-5, 1e-1, "log"), toy::range("batch", 1, 4096, "log", true),
                           toy::range("warm", 0, 1000, "linear", true), toy::list("kind", {"a", "b", "c"}), stepped});
  PhiloxSequence draws(seed);
  for (int i = 0; i < 500; ++i) {
    std::vector<double> point(space.dims());
    for (double& x : point) x = draws.next_uniform();
    const Value configuration = space.at(point);
    const auto place = space.place(configuration);
    REQUIRE(place.has_value());
    const Value again = space.at(*place);
    CHECK(again.get_number("lr") == doctest::Approx(configuration.get_number("lr")).epsilon(1e-9));
    for (const char* name : {"batch", "warm", "kind", "stepped"}) CHECK(*again.find(name) == *configuration.find(name));
  }
  Value foreign = space.at(std::vector<double>(5, 0.5));
  foreign.set("lr", 1.0);
  CHECK(!space.place(foreign));
  foreign.set("lr", 1e-3);
  CHECK(space.place(foreign));
  foreign.set("kind", "d");
  CHECK(!space.place(foreign));
  foreign.erase("kind");
  CHECK(!space.place(foreign));
}

TEST_CASE("a space of lists and whole numbers can be counted through") {
  const SearchSpace space({toy::list("a", {1, 2, 3}), toy::range("b", 5, 6, "linear", true)});
  REQUIRE(space.size() == 6);
  std::vector<Value> all;
  for (int i = 0; i < 6; ++i) {
    CHECK(std::ranges::find(all, space.numbered(i)) == all.end());
    all.push_back(space.numbered(i));
  }
  CHECK(all[1] == Value(ValueTable{{"a", 1, {}}, {"b", 6, {}}}));
  CHECK(!SearchSpace({toy::range("lr", 0, 1)}).size());
  CHECK(!SearchSpace({toy::range("a", 0, 4e9, "linear", true), toy::range("b", 0, 4e9, "linear", true)}).size());
}

TEST_CASE("numbers in order are neighbours, texts and unordered numbers are not") {
  const SearchSpace space({toy::list("a", {1, 2, 4}), toy::list("b", {4, 2, 1}), toy::list("c", {1, 4, 2}),
                           toy::list("d", {"x", "y"}), toy::range("e", 0, 1)});
  CHECK(space.is_ordered(0));
  CHECK(space.is_ordered(1));
  CHECK(!space.is_ordered(2));
  CHECK(!space.is_ordered(3));
  CHECK(space.is_ordered(4));
}

}  // namespace longhaul::hyper
