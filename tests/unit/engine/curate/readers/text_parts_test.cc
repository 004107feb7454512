#include "engine/curate/readers/text_parts.h"

#include <doctest/doctest.h>

#include <string>

namespace longhaul {
namespace {

using Parts = std::vector<std::string_view>;

std::int64_t words_of_part(std::string_view text) {
  std::int64_t words = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] != ' ' && text[i] != '\n' && (i == 0 || text[i - 1] == ' ' || text[i - 1] == '\n')) ++words;
  return words;
}

}  // namespace

TEST_CASE("a text of few words stays whole") {
  CHECK(text_parts("one two three", 3) == Parts{"one two three"});
  CHECK(text_parts("one two three", 0) == Parts{"one two three"});
  CHECK(text_parts("", 3) == Parts{""});
}

TEST_CASE("a long text is divided at empty lines, else at lines, else at blanks, else between characters") {
  CHECK(text_parts("one two three\n\nfour five six\n\nseven eight nine", 8) ==
        Parts{"one two three", "four five six", "seven eight nine"});
  CHECK(text_parts("one two three\nfour five six", 5) == Parts{"one two", "three\nfour", "five six"});
  CHECK(text_parts("one two three four five six\nseven", 6) == Parts{"one two three", "four five six", "seven"});
  const std::string ideographs = "\u6cb3\u6d41\u7ecf\u8fc7\u53e4\u57ce";
  CHECK(text_parts(ideographs, 4) == Parts{"\u6cb3\u6d41", "\u7ecf\u8fc7", "\u53e4\u57ce"});
}

TEST_CASE("parts lose no word, and none has more than half of the words allowed") {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "w" + std::to_string(i) + (i % 97 == 0 ? "\n\n" : i % 13 == 0 ? "\n" : " ");
  std::int64_t words = 0;
  for (const std::string_view part : text_parts(text, 400)) {
    CHECK(words_of_part(part) <= 200);
    CHECK(words_of_part(part) > 0);
    words += words_of_part(part);
  }
  CHECK(words == 5000);
}

}  // namespace longhaul
