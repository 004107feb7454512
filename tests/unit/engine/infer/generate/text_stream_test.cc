// Streaming of text: whole characters only, stop texts across any boundary, nothing lost and nothing twice.
#include "engine/infer/generate/text_stream.h"

#include <doctest/doctest.h>

#include "base/digest/philox.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

// `text` in random pieces of 0..4 bytes.
std::vector<std::string> pieces_of(const std::string& text, PhiloxSequence& random) {
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t count = random.next_below(5);
    pieces.push_back(text.substr(at, count));
    at += count;
  }
  return pieces;
}

std::string random_text(PhiloxSequence& random, bool valid) {
  static const std::vector<std::string> units = {"a", "b", "ab", "é", "€", "😀", "\n", "漢", "xyz"};
  std::string text;
  for (std::uint64_t i = random.next_below(30); i-- > 0;) {
    if (!valid && random.next_below(4) == 0) {
      text += static_cast<char>(random.next_below(256));
    } else {
      text += units[random.next_below(units.size())];
    }
  }
  return text;
}

}  // namespace

TEST_CASE("every piece of a stream is valid UTF-8, and together they are the text") {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    CAPTURE(seed);
    PhiloxSequence random(seed);
    const bool valid = seed % 2 == 0;
    const std::string text = random_text(random, valid);
    Utf8Gate gate;
    std::string out;
    for (const std::string& piece : pieces_of(text, random)) {
      const std::string ready = gate.push(piece);
      REQUIRE(is_valid_utf8(ready));
      out += ready;
    }
    out += gate.finish();
    CHECK(out == repair_utf8(text));
    if (valid) CHECK(out == text);
  }
}

TEST_CASE("a character is released with its last byte, not later") {
  Utf8Gate gate;
  CHECK(gate.push("a\xE2\x82") == "a");
  CHECK(gate.push("\xAC") == "€");
  CHECK(gate.push("\xF0\x9F\x98") == "");
  CHECK(gate.finish() == "\xEF\xBF\xBD");
}

TEST_CASE("a stop text is found across token boundaries and never seen") {
  StopFilter filter({"STOP", "</s>"});
  CHECK(filter.push("one S") == "one ");
  CHECK(filter.push("TO") == "");
  CHECK_FALSE(filter.stopped());
  CHECK(filter.push("X<") == "STOX");
  CHECK(filter.push("/s") == "");
  CHECK(filter.push("> more") == "");
  CHECK(filter.stopped());
  CHECK(filter.push("nothing any more") == "");
  CHECK(filter.finish() == "");
}

TEST_CASE("what looked like the beginning of a stop text is released at the end") {
  StopFilter filter({"\n\nQ:"});
  CHECK(filter.push("answer\n\nQ") == "answer");
  CHECK(filter.finish() == "\n\nQ");
}

TEST_CASE("text in pieces stops where the whole text would") {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    CAPTURE(seed);
    PhiloxSequence random(seed, 1);
    const std::string text = random_text(random, true);
    std::vector<std::string> stops;
    for (std::uint64_t i = random.next_below(4); i-- > 0;) stops.push_back(random_text(random, true).substr(0, 4));
    std::size_t first = std::string::npos;
    for (const std::string& stop : stops) {
      if (!stop.empty()) first = std::min(first, text.find(stop));
    }
    StopFilter filter(stops);
    std::string out;
    for (const std::string& piece : pieces_of(text, random)) out += filter.push(piece);
    out += filter.finish();
    CHECK(filter.stopped() == (first != std::string::npos));
    CHECK(out == text.substr(0, first));
  }
}

}  // namespace longhaul
