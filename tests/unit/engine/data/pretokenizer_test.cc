// The hand-written matchers against the regular expressions they stand for.
#include "engine/data/pretokenizer.h"

#include <doctest/doctest.h>

#include "tests/support/random_text.h"

using namespace longhaul;

namespace {

void check_same_pieces(const Pretokenizer& fast, const Pretokenizer& slow, const std::string& text) {
  std::vector<std::uint32_t> a, b;
  fast.split(text, a);
  slow.split(text, b);
  CHECK(a == b);
}

}  // namespace

TEST_CASE("hand-written matchers cut exactly as their patterns") {
  for (const auto pattern : {PretokenizerPattern::gpt2, PretokenizerPattern::llama3}) {
    CAPTURE(to_string(pattern));
    const Pretokenizer fast = Pretokenizer::create({pattern_text(pattern)}).value();
    const Pretokenizer slow = Pretokenizer::create({pattern_text(pattern)}, false).value();
    for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
      CAPTURE(seed);
      PhiloxSequence draw(seed);
      check_same_pieces(fast, slow, random_utf8(draw, draw.next_below(80)));
    }
    // Every code point, between a letter, a space, a digit and itself.
    std::string text;
    for (std::uint32_t c = 1; c < 0x110000; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      for (const char* before : {"a", " ", "1", "'", "\n"}) {
        text += before;
        append_utf8(text, c);
      }
      append_utf8(text, c);
      if (c % 4096 == 0 || c == 0x10FFFF) {
        check_same_pieces(fast, slow, text);
        text.clear();
      }
    }
  }
}

TEST_CASE("code points that came after PCRE2's tables are letters and digits") {
  const auto& classes = code_point_classes();
  CHECK(classes['a'] == class_letter);
  CHECK(classes['7'] == class_number);
  CHECK(classes[' '] == class_space);
  CHECK(classes['.'] == 0);
  CHECK(classes[0x323AF] == class_letter);  // Unicode 15
  CHECK(classes[0x1C89] == class_letter);   // Unicode 16
  CHECK(classes[0x1E5F1] == class_number);  // Unicode 16
  CHECK(classes[0x85] == class_space);
  CHECK(classes[0x180E] == 0);  // once a space, no longer
  std::size_t letters = 0, numbers = 0;
  for (const std::uint8_t c : classes) {
    letters += c & class_letter ? 1 : 0;
    numbers += c & class_number ? 1 : 0;
  }
  CHECK(letters == 141028);  // Unicode 16, as counted through the reference implementation
  CHECK(numbers == 1911);
}

TEST_CASE("patterns in sequence cut the pieces of the one before") {
  const Pretokenizer both = Pretokenizer::create({"[0-9]", pattern_text(PretokenizerPattern::gpt2)}).value();
  std::vector<std::uint32_t> ends;
  both.split("ab 12cd", ends);
  CHECK(ends == std::vector<std::uint32_t>{2, 3, 4, 5, 7});
  both.split("", ends);
  CHECK(ends.empty());
}

TEST_CASE("patterns that cannot be used are errors") {
  CHECK_FALSE(PatternRegex::compile("(").ok());
  CHECK_FALSE(PatternRegex::compile("[^\\S]").ok());
  CHECK_FALSE(parse_pretokenizer_pattern("gpt5").ok());
  // An empty match makes no piece and no endless loop.
  const PatternRegex regex = PatternRegex::compile("x*").value();
  std::vector<std::uint32_t> ends;
  regex.split("axxb", ends);
  CHECK(ends == std::vector<std::uint32_t>{1, 3, 4});
}
