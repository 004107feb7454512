// Lines that say how long they are and where they stand: any change is seen, and what was never whole is distinguished
// from what was damaged.
#include "orchestrator/state/sealed_line.h"

#include <doctest/doctest.h>

#include "base/value/json.h"

using namespace longhaul;

namespace {
const std::string sealed_text = R"({"fact":"skipped","stage":"a"})";

std::string without_newline(std::string line) {
  line.pop_back();
  return line;
}
}  // namespace

TEST_CASE("a sealed line is the same JSON with its sum, and is known again") {
  const std::string line = seal_line(sealed_text, {4, 1, 3});
  CHECK(line.back() == '\n');
  const auto value = parse_json(line);
  REQUIRE(value.ok());
  CHECK(value->get_string("stage") == "a");
  const CheckedLine checked = check_line(without_newline(line));
  CHECK(checked.check == LineCheck::sealed);
  CHECK(checked.seal == LineSeal{4, 1, 3});
  CHECK(check_line(sealed_text).check == LineCheck::plain);
}

TEST_CASE("no byte of a sealed line can change, come or go without being seen") {
  const std::string line = without_newline(seal_line(sealed_text, {4, 1, 3}));
  for (std::size_t i = 0; i < line.size(); ++i) {
    std::string changed = line;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    CHECK(check_line(changed).check != LineCheck::sealed);
    CHECK(check_line(line.substr(0, i)).check != LineCheck::sealed);
    CHECK(check_line(line.substr(0, i) + line.substr(i + 1)).check != LineCheck::sealed);
  }
  CHECK(check_line(std::string(20, '\0')).check == LineCheck::bad);
}

TEST_CASE("a bad line was whole once where a later append follows it") {
  const LineSeal last_of_append_3{3, 1, 2}, first_of_append_3{3, 0, 2};
  struct Case {
    const char* what;
    LogBreak found;
    bool damaged;
  };
  const Case cases[] = {
      {"nothing follows", {last_of_append_3, std::nullopt, false, false}, false},
      {"the rest of its append follows", {first_of_append_3, LineSeal{3, 1, 2}, false, true}, false},
      {"the rest of the next append follows", {last_of_append_3, LineSeal{4, 2, 3}, false, true}, false},
      {"a later append follows its own", {first_of_append_3, LineSeal{4, 0, 1}, false, true}, true},
      {"a later append follows the next", {last_of_append_3, LineSeal{5, 0, 1}, false, false}, true},
      {"the first line, and others follow", {std::nullopt, LineSeal{1, 0, 1}, false, false}, true},
      {"no seals: garbage", {std::nullopt, std::nullopt, true, false}, true},
      {"no seals: a hole", {std::nullopt, std::nullopt, true, true}, false},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    CHECK(was_whole_once(c.found) == c.damaged);
  }
}
