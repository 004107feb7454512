#include "base/value/value.h"

#include <doctest/doctest.h>

namespace longhaul {

TEST_CASE("a table keeps the order written and replaces in place") {
  Value table;
  table.set("zeta", 1);
  table.set("alpha", "two");
  table.set("zeta", 3);
  REQUIRE(table.size() == 2);
  CHECK(table.as_table()[0].key == "zeta");
  CHECK(table.as_table()[0].value.as_integer() == 3);
  CHECK(table.as_table()[1].key == "alpha");
  table.erase("zeta");
  CHECK(table.find("zeta") == nullptr);
  CHECK(table.size() == 1);
}

TEST_CASE("lookups with a default take it for an absent key and for another kind") {
  Value table = Value::make_table();
  table.set("steps", 20);
  table.set("name", "tiny");
  CHECK(table.get_integer("steps", 7) == 20);
  CHECK(table.get_integer("absent", 7) == 7);
  CHECK(table.get_integer("name", 7) == 7);
  CHECK(table.get_number("steps") == 20.0);  // an integer is a number
  CHECK(table.get_string("steps", "none") == "none");
  CHECK(table.get_bool("name", true));
  CHECK(Value(3).get_integer("steps", 5) == 5);  // no table: the default as well
}

TEST_CASE("a null value becomes the container that is asked of it") {
  Value list;
  list.push_back(1);
  list.push_back("b");
  CHECK(list.is_array());
  CHECK(list.size() == 2);
  Value nested;
  nested.set("inner", Value::make_table()).set("deep", true);
  CHECK(nested.find("inner")->get_bool("deep"));
}

TEST_CASE("equality looks at content and order, not at positions") {
  Value a = Value::make_table();
  a.set("x", 1);
  Value b = a;
  b.pos = SourcePos{"f.toml", 3, 4};
  b.as_table()[0].key_pos = SourcePos{"f.toml", 3, 1};
  CHECK(a == b);
  b.set("y", 2);
  CHECK_FALSE(a == b);
  CHECK_FALSE(Value(1) == Value(1.0));
}

TEST_CASE("kinds have the names that messages use") {
  CHECK(std::string(Value().kind_name()) == "null");
  CHECK(std::string(Value(true).kind_name()) == "boolean");
  CHECK(std::string(Value(1).kind_name()) == "integer");
  CHECK(std::string(Value(1.5).kind_name()) == "number");
  CHECK(std::string(Value("s").kind_name()) == "string");
  CHECK(std::string(Value::make_array().kind_name()) == "array");
  CHECK(std::string(Value::make_table().kind_name()) == "table");
}

}  // namespace longhaul
