#include "engine/curate/extract/clean_text.h"

#include <doctest/doctest.h>

#include <random>

#include "base/text/text.h"
#include "engine/curate/extract/unicode.h"
#include "engine/curate/filter/language.h"
#include "engine/curate/filter/words.h"

namespace longhaul {
namespace {

TEST_CASE("cleaned text: normal form, line ends, blanks, no control characters") {
  CHECK(clean_text("e\xCC\x81") == "\xC3\xA9");  // e + acute accent composes
  CHECK(clean_text("a\r\nb\rc\xE2\x80\xA8"
                   "d\xC2\x85"
                   "e") == "a\nb\nc\nd\ne");
  CHECK(clean_text("  a \t b\xC2\xA0\xC2\xA0"
                   "c  \n") == "  a b c");
  CHECK(clean_text("\n\n a\n\n\n\n\nb\n \n") == " a\n\nb");
  CHECK(clean_text("\x01"
                   "a\x7F"
                   "b\xE2\x80\x8B"
                   "c\xEF\xBB\xBF"
                   "d\xEF\xBF\xBD") == "abcd");
  CHECK(clean_text("\xD9\x85\xDB\x8C\xE2\x80\x8C\xD8\xAE") ==
        "\xD9\x85\xDB\x8C\xE2\x80\x8C\xD8\xAE");  // Persian needs its joiner
  CHECK(clean_text("if x:\n    return 1") == "if x:\n    return 1");
  CHECK(clean_text("").empty());
}

TEST_CASE("cleaning twice changes nothing, and bytes of any kind are accepted") {
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::string bytes;
    for (int i = 0; i < 500; ++i) {
      if (random() % 3 == 0) {
        append_utf8(bytes, random() % 0x3000);
      } else {
        bytes += static_cast<char>(random() & 0xFF);
      }
    }
    const std::string once = clean_text(bytes);
    CHECK(is_valid_utf8(once));
    CHECK(clean_text(once) == once);
  }
}

TEST_CASE("the comparison key ignores case, punctuation and blanks") {
  CHECK(comparison_key("Hello,  World!\n") == comparison_key("hello world"));
  CHECK(comparison_key("\xC3\x89TAT") == comparison_key("\xC3\xA9tat"));
  CHECK(comparison_key("a b") != comparison_key("ab"));
  CHECK(comparison_key("--- ***") == "---***");
  CHECK(comparison_key("-----") != comparison_key("====="));
}

TEST_CASE("words: runs of letters; scripts without blanks letter by letter") {
  const std::string text = "Don't stop 2024 \xE4\xB8\xAD\xE6\x96\x87 ok";
  const auto words = split_words(text);
  REQUIRE(words.size() == 7);
  CHECK(text.substr(words[1].begin, words[1].end - words[1].begin) == "t");
  CHECK_FALSE(words[3].alphabetic);
  CHECK(words[4].unspaced);
  CHECK(words[5].letters == 1);
  CHECK_FALSE(words[6].unspaced);
  CHECK(split_words("").empty());
}

TEST_CASE("languages are recognised, small ones too, and nonsense is not") {
  CHECK(detect_language("This is a sentence about the weather in the north of the country.").code == "en");
  CHECK(detect_language("Esta es una frase sobre el tiempo en el norte de la provincia y sus alrededores.").code ==
        "es");
  CHECK(detect_language("Dies ist ein Satz \xC3\xBC"
                        "ber das Wetter im Norden des Landes und seine Folgen.")
            .code == "de");
  CHECK(
      detect_language(
          "\xE8\xBF\x99\xE6\x98\xAF\xE4\xB8\x80\xE4\xB8\xAA\xE5\x85\xB3\xE4\xBA\x8E\xE5\xA4\xA9\xE6\xB0\x94\xE7\x9A\x84"
          "\xE5\x8F\xA5\xE5\xAD\x90\xEF\xBC\x8C\xE6\x88\x91\xE4\xBB\xAC\xE5\x9C\xA8\xE5\x8C\x97\xE6\x96\xB9\xE3\x80"
          "\x82")
          .code == "zh");
  // Zulu stands only in the large tables: without them this is another language.
  CHECK(detect_language(
            "Wonke umuntu uzalwa ekhululekile futhi elingana ngesithunzi nangamalungelo. Bahlanganiswe wumcabango "
            "nangunembeza futhi kufanele baphathane ngomoya wobunye.")
            .code == "zu");
  const LanguageGuess none = detect_language("0x00 1234 +++ 99 @@ 17 %% 3");
  CHECK(none.code == "und");
  CHECK(none.score == 0);
}

TEST_CASE("an invalid byte does not hide the language of what follows") {
  const LanguageGuess guess = detect_language(
      "\xFF\xFEThis is a sentence about the weather in the north of the country, and about its people.");
  CHECK(guess.code == "en");
  CHECK(guess.score > 0.8);
}

TEST_CASE("display columns: wide letters have two, marks none") {
  CHECK(display_columns("abc") == 3);
  CHECK(display_columns("\xE4\xB8\xAD\xE6\x96\x87") == 4);
  CHECK(display_columns("e\xCC\x81") == 1);
}

}  // namespace
}  // namespace longhaul
