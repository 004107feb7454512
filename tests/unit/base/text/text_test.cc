#include "base/text/text.h"

#include <doctest/doctest.h>

#include "base/digest/philox.h"

namespace longhaul {

TEST_CASE("ill-formed UTF-8 is found and repaired by maximal parts") {
  const std::string fffd = "\xEF\xBF\xBD";
  struct Row {
    const char* bytes;
    std::string repaired;
  };
  // The rows of the Unicode standard's table 3-8 and the classical attacks.
  const Row rows[] = {
      {"\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64",
       "a" + fffd + fffd + fffd + "b" + fffd + "c" + fffd + fffd + "d"},
      {"\xC0\xAF", fffd + fffd},                        // overlong
      {"\xE0\x80\xAF", fffd + fffd + fffd},             // overlong
      {"\xED\xA0\x80", fffd + fffd + fffd},             // surrogate
      {"\xF4\x90\x80\x80", fffd + fffd + fffd + fffd},  // above U+10FFFF
      {"\xE6\x97", fffd},                               // cut at the end
      {"\xFF\xFE", fffd + fffd},
  };
  for (const Row& row : rows) {
    CAPTURE(row.repaired);
    CHECK_FALSE(is_valid_utf8(row.bytes));
    CHECK(repair_utf8(row.bytes) == row.repaired);
  }
  for (const std::string good : {"", "plain", "é", "日本語", "\xF4\x8F\xBF\xBF", "\xEF\xBF\xBF", "\xED\x9F\xBF"}) {
    CAPTURE(good);
    CHECK(is_valid_utf8(good));
    CHECK(repair_utf8(good) == good);
  }
}

TEST_CASE("a byte that is no character is found at every place of a row of letters") {
  for (std::size_t size = 1; size <= 40; ++size) {
    for (std::size_t at = 0; at < size; ++at) {
      std::string text(size, 'x');
      CHECK(is_valid_utf8(text));
      text[at] = '\x80';
      CHECK_FALSE(is_valid_utf8(text));
      if (at + 1 < size) {
        text[at] = '\xC3', text[at + 1] = '\xA9';
        CHECK(is_valid_utf8(text));
      }
    }
  }
}

TEST_CASE("repaired text is always valid, and repairing again changes nothing") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    PhiloxSequence random(seed);
    std::string text(random.next_below(40), '\0');
    for (char& c : text)
      c = static_cast<char>(random.next_below(2) ? 0x80 + random.next_below(0x80) : random.next_below(256));
    const std::string repaired = repair_utf8(text);
    CHECK(is_valid_utf8(repaired));
    CHECK(repair_utf8(repaired) == repaired);
    CHECK((repaired == text) == is_valid_utf8(text));
  }
}

TEST_CASE("amounts for people never round into the next unit's width") {
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(1536) == "1.5 KiB");
  CHECK(human_bytes(1048575) == "1.0 MiB");
  CHECK(human_bytes(1.5 * 1024 * 1024 * 1024) == "1.5 GiB");
  CHECK(human_count(999) == "999");
  CHECK(human_count(1234) == "1.23 K");
  CHECK(human_count(999999) == "1 M");
  CHECK(human_count(124e6) == "124 M");
  CHECK(human_count(8.03e9) == "8.03 B");
  CHECK(human_duration(4.21) == "4.2s");
  CHECK(human_duration(59.97) == "1m 00s");
  CHECK(human_duration(200) == "3m 20s");
  CHECK(human_duration(3720) == "1h 02m");
  CHECK(human_duration(90000) == "1d 01h");
}

TEST_CASE("amounts from people need a unit") {
  CHECK(parse_duration_seconds("30min") == 1800.0);
  CHECK(parse_duration_seconds("2h") == 7200.0);
  CHECK(parse_duration_seconds("500ms") == 0.5);
  CHECK(parse_duration_seconds("1.5 d") == 129600.0);
  for (const std::string bad : {"", "30", "min", "-3s", "3 weeks", "nan s", "inf h", "1h30"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_duration_seconds(bad));
  }
  CHECK(parse_bytes("16GiB") == 17179869184);
  CHECK(parse_bytes("1KB") == 1000);
  CHECK(parse_bytes("100B") == 100);
  for (const std::string bad : {"", "16", "16 gigs", "-1B", "99999999TiB"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_bytes(bad));
  }
}

TEST_CASE("splitting, joining, quoting") {
  CHECK(split("a,,b", ',') == std::vector<std::string>{"a", "", "b"});
  CHECK(split("", ',') == std::vector<std::string>{""});
  CHECK(join({"a", "b"}, ", ") == "a, b");
  CHECK(trim(" \t a b \n") == "a b");
  CHECK(trim(" \n ").empty());
  CHECK(replace_all("aaa", "a", "aa") == "aaaaaa");
  CHECK(replace_all("abc", "", "x") == "abc");
  CHECK(starts_with("abc", "ab"));
  CHECK_FALSE(starts_with("a", "ab"));
  CHECK(ends_with("abc", "bc"));
  CHECK_FALSE(ends_with("c", "bc"));
  CHECK(html_escape("<a href=\"x\">&'") == "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
  CHECK(shell_quote("it's $HOME") == "'it'\\''s $HOME'");
  CHECK(shell_quoted("runs/a-1_b.c:2") == "runs/a-1_b.c:2");
  for (const char* text : {"", "my runs/a", "~/a", "a;b", "a&b", "$HOME", "a*", "#a", "a\nb", "größe", "it's"})
    CHECK(shell_quoted(text) == shell_quote(text));
}

}  // namespace longhaul
