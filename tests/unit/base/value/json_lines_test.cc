#include "base/value/json_lines.h"

#include <doctest/doctest.h>

#include "base/text/text.h"

using namespace longhaul;

TEST_CASE("JSON Lines: lines that are not blank come with their numbers, and the place behind them") {
  const std::string text = "{\"a\": 1}\n\n \t\r\n{\"a\": 2}\r\n{\"a\": 3}";
  JsonLineReader lines(text);
  std::vector<int> numbers;
  std::vector<std::size_t> places;
  for (JsonLine line; lines.next(line);) {
    numbers.push_back(line.number), places.push_back(lines.position());
    CHECK(parse_json_row(line, "x.jsonl").value().get_integer("a") == static_cast<int>(numbers.size()));
  }
  CHECK(numbers == std::vector{1, 4, 5});
  CHECK(places == std::vector<std::size_t>{9, text.size() - 8, text.size()});
  JsonLine none;
  CHECK_FALSE(JsonLineReader("").next(none));
  CHECK_FALSE(JsonLineReader("\n \n").next(none));
}

TEST_CASE("JSON Lines: a line that is no JSON, no object, or too long is refused with file and line") {
  const auto said = [](std::string_view text, std::size_t bytes_max = 100) {
    return parse_json_row({text, 7}, "x.jsonl", bytes_max).error().message();
  };
  CHECK(said("{\"a\"").starts_with("x.jsonl:7: not valid JSON"));
  CHECK(said("[1]") == "x.jsonl:7: the line is not a JSON object; one JSON object per line is expected");
  CHECK(said("{\"a\": 12345}", 8).starts_with("x.jsonl:7: the row has 12 bytes"));
  CHECK(parse_json_row({"[1]", 7}, "x.jsonl").error().code == ErrorCode::invalid_input);
  CHECK(parse_json_row({"{\"a\"", 7}, "x.jsonl").error().code == ErrorCode::invalid_input);
}

TEST_CASE("JSON Lines: all problems of a text are reported together, twenty of them shown") {
  std::vector<int> read;
  const auto each = [&](const Value& row, int line) -> Status {
    read.push_back(line);
    if (row.find("b")) return make_error(ErrorCode::not_found, "'b' is not used", "take it out");
    return {};
  };
  const Status status = for_each_json_row("{\"a\": 1}\nno\n\n{\"b\": 1}\n{\"a\": 2}\n", {"x.jsonl"}, each);
  CHECK(read == std::vector{1, 4, 5});
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == ErrorCode::invalid_input);
  const std::string said = status.error().message();
  CAPTURE(said);
  CHECK(said.find("x.jsonl:2: error: not valid JSON") != std::string::npos);
  CHECK(said.find("x.jsonl:4: error: 'b' is not used; take it out\n") != std::string::npos);
  CHECK(said.ends_with("2 errors; nothing was read"));

  std::string many;
  for (int i = 0; i < 23; ++i) many += "[]\n";
  const std::string of_many = for_each_json_row(many, {"x.jsonl"}, each).error().message();
  CHECK(of_many.ends_with("20 errors; and 3 more lines with errors; nothing was read"));
}

TEST_CASE("JSON Lines: an empty text is an error where the caller says what it should hold") {
  const auto each = [](const Value&, int) { return Status(); };
  CHECK(for_each_json_row("\n", {"x.jsonl"}, each).ok());
  CHECK(for_each_json_row("\n", {"x.jsonl", "examples"}, each).error().message() ==
        "x.jsonl has no examples; one JSON object per line is expected");
}
