// The cursor that the grammar of templates is read through: what it takes, what it names in errors, and how deep it
// lets expressions stand within each other.
#include "engine/data/jinja/jinja_cursor.h"

#include <doctest/doctest.h>

#include "engine/data/jinja/jinja_expressions.h"

using namespace longhaul;

TEST_CASE("jinja cursor: a sign that was expected is named with the line where another token stands") {
  const std::string name = "chat";
  JinjaCursor cursor(jinja_tokens("\n{{ a }}", name).value(), name);
  while (!cursor.is_name("a")) cursor.advance();
  CHECK(cursor.take_name("b") == false);
  const Status expected = cursor.expect_sign(",");
  REQUIRE_FALSE(expected.ok());
  CHECK(expected.error().what == "',' was expected, not 'a'");
  CHECK(expected.error().where.value().line == 2);
  CHECK(cursor.take_name("a"));  // a sign that was not there took nothing
}

TEST_CASE("jinja cursor: a name counts as read between a place and the current one, and a sign put in comes first") {
  const std::string name = "chat";
  JinjaCursor cursor(jinja_tokens("{{ loop a }}", name).value(), name);
  while (!cursor.is_name("loop")) cursor.advance();
  const std::size_t begin = cursor.position();
  CHECK_FALSE(cursor.has_name_since(begin, "loop"));
  cursor.advance();
  CHECK(cursor.has_name_since(begin, "loop"));
  CHECK_FALSE(cursor.has_name_since(begin, "a"));
  cursor.insert_sign("|");
  CHECK(cursor.take_sign("|"));
  CHECK(cursor.is_name("a"));
}

TEST_CASE("jinja cursor: an expression is refused one level below the deepest that is allowed") {
  const std::string name = "chat";
  const auto read = [&](int lists) {
    const std::string nested = std::string(lists, '[') + std::string(lists, ']');
    JinjaCursor cursor(jinja_tokens("{{ " + nested + " }}", name).value(), name);
    cursor.advance();
    return read_jinja_expression(cursor).ok();
  };
  CHECK(read(JinjaCursor::levels_max / 2));  // each list is an expression and what an operator stands before
  CHECK_FALSE(read(JinjaCursor::levels_max / 2 + 1));
}
