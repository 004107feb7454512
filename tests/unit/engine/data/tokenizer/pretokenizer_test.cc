// The hand-written matchers against the regular expressions they stand for.
#include "engine/data/tokenizer/pretokenizer.h"

#include <doctest/doctest.h>

#include "base/system/clock.h"
#include "tests/support/patience.h"
#include "tests/support/random_text.h"

using namespace longhaul;

namespace {

void check_same_pieces(const Pretokenizer& fast, const Pretokenizer& slow, const std::string& text) {
  std::vector<std::uint32_t> a, b;
  PatternBudget budget(text.size());
  REQUIRE(fast.split(text, budget, a).ok());
  REQUIRE(slow.split(text, budget, b).ok());
  CHECK(a == b);
}

}  // namespace

TEST_CASE("a contraction ends behind its letters, of which the long s is one where case does not count") {
  for (const auto pattern : {PretokenizerPattern::gpt2, PretokenizerPattern::llama3}) {
    CAPTURE(to_string(pattern));
    const Pretokenizer fast = Pretokenizer::create({pattern_text(pattern)}).value();
    const Pretokenizer slow = Pretokenizer::create({pattern_text(pattern)}, false).value();
    // U+017F is C5 BF; the others share one of its bytes.
    for (const std::string text : {"it'\u017Fa b", "it'\u016Aa b", "it'\u00FFa b", "it'sa b", "IT'Sa b", "it'rea b"})
      check_same_pieces(fast, slow, text);
  }
}

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

TEST_CASE("a text that is the beginning of a longer one is cut as if nothing stood behind it") {
  for (const auto pattern : {PretokenizerPattern::gpt2, PretokenizerPattern::llama3}) {
    CAPTURE(to_string(pattern));
    const Pretokenizer fast = Pretokenizer::create({pattern_text(pattern)}).value();
    for (const std::string_view longer : {"it's", "they're", "we'll", "'\xC5\xBF"})
      for (std::size_t size = 1; size < longer.size(); ++size) {
        if ((static_cast<unsigned char>(longer[size]) & 0xC0) == 0x80) continue;  // within a character
        std::vector<std::uint32_t> cut, whole;
        PatternBudget budget(2 * size);
        REQUIRE(fast.split(longer.substr(0, size), budget, cut).ok());
        REQUIRE(fast.split(std::string(longer.substr(0, size)), budget, whole).ok());
        CHECK(cut == whole);
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
  PatternBudget budget(8);
  REQUIRE(both.split("ab 12cd", budget, ends).ok());
  CHECK(ends == std::vector<std::uint32_t>{2, 3, 4, 5, 7});
  REQUIRE(both.split("", budget, ends).ok());
  CHECK(ends.empty());
}

TEST_CASE("patterns that cannot be used are errors") {
  CHECK_FALSE(PatternRegex::compile("(").ok());
  CHECK_FALSE(PatternRegex::compile("[^\\S]").ok());
  CHECK_FALSE(parse_pretokenizer_pattern("gpt5").ok());
  // An empty match makes no piece and no endless loop.
  const PatternRegex regex = PatternRegex::compile("x*").value();
  std::vector<std::uint32_t> ends;
  PatternBudget budget(4);
  REQUIRE(regex.split("axxb", budget, ends).ok());
  CHECK(ends == std::vector<std::uint32_t>{1, 3, 4});
}

namespace {

Status split_all(const char* pattern, const std::string& text, std::vector<std::uint32_t>& ends) {
  const Result<Pretokenizer> pretokenizer = Pretokenizer::create({pattern});
  REQUIRE_MESSAGE(pretokenizer.ok(), pattern);
  PatternBudget budget(text.size());
  return pretokenizer->split(text, budget, ends);
}

}  // namespace

TEST_CASE("trust: a pattern that costs too much ends with an error that names it and the place") {
  // Exponential, exponential below every limit of one position, quadratic in counted and in uncounted steps, and
  // quadratic in references.
  const std::string a(200'000, 'a');
  const char* catastrophic[] = {"(a+)+$", "(?:a?){14}b|.", ".*b|a", "[^x]*+x|a", "(a*)*\\1b|a"};
  for (const char* pattern : catastrophic) {
    CAPTURE(pattern);
    const SystemClock clock;
    const std::int64_t begun = clock.monotonic_ns();
    std::vector<std::uint32_t> ends;
    const Status status = split_all(pattern, "start " + a + "!", ends);
    CHECK(clock.monotonic_ns() - begun < testing::patience_ms(20'000) * 1'000'000);
    REQUIRE_FALSE(status.ok());
    CAPTURE(status.error().message());
    CHECK(status.error().code == ErrorCode::unsupported);
    CHECK(status.error().what.find(pattern) != std::string::npos);
    CHECK(status.error().what.find(" of 200007") != std::string::npos);
  }
}

TEST_CASE("trust: patterns that move the beginning of a match, cut characters or are very long are refused") {
  for (const char* pattern : {"a\\Kb", "(?=ab\\K)", "\\C", "(?:x|\\Ky)+"}) {
    CAPTURE(pattern);
    const auto regex = PatternRegex::compile(pattern);
    REQUIRE_FALSE(regex.ok());
    CHECK(regex.error().code == ErrorCode::unsupported);
  }
  CHECK(PatternRegex::compile("a\\\\K").ok());  // a backslash, and the letter
  CHECK(PatternRegex::compile(std::string(4096, 'a')).ok());
  CHECK_FALSE(PatternRegex::compile(std::string(4097, 'a')).ok());
}

TEST_CASE("trust: honest patterns cut long runs of one letter within their budget") {
  const std::string texts[] = {std::string(1 << 20, 'A'), std::string(1 << 20, ' ') + "x", std::string(1 << 20, '\n'),
                               std::string(1 << 20, '.'), std::string(1 << 20, '7')};
  for (const auto pattern : {PretokenizerPattern::gpt2, PretokenizerPattern::llama3, PretokenizerPattern::o200k})
    for (const std::string& text : texts) {
      CAPTURE(to_string(pattern));
      CAPTURE(text.substr(0, 1));
      const Pretokenizer slow = Pretokenizer::create({pattern_text(pattern)}, false).value();
      std::vector<std::uint32_t> ends;
      PatternBudget budget(text.size());
      const std::uint64_t given = budget.steps_left;
      REQUIRE(slow.split(text, budget, ends).ok());
      CHECK(ends.back() == text.size());
      CHECK(given - budget.steps_left < 20 * text.size());
    }
}
