#include "base/text/visible_text.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/files/files.h"
#include "base/process/log.h"
#include "base/text/print.h"
#include "base/value/json.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

// What a program prints, read back.
template <class Print>
std::string printed(Print print_into) {
  const testing::Scratch scratch;
  const std::string path = scratch.file("out");
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), std::fclose);
  REQUIRE(file);
  print_into(file.get());
  std::fflush(file.get());
  return read_file(path).value();
}

}  // namespace

TEST_CASE("trust: control characters, C1 and bidirectional controls become visible") {
  CHECK(visible("plain text\n\tstays: é 語 🙂") == "plain text\n\tstays: é 語 🙂");
  CHECK(visible("\x1b]0;title\x07") == "\\u001b]0;title\\u0007");
  CHECK(visible("10 %\r20 %") == "10 %\\u000d20 %");
  CHECK(visible(std::string("a\0b\x7f", 4)) == "a\\u0000b\\u007f");
  CHECK(visible("\xc2\x9b"
                "31m") == "\\u009b31m");
  CHECK(visible("\u202e\u2066\u2069\u200e\u200f\u061c\u2028") == "\\u202e\\u2066\\u2069\\u200e\\u200f\\u061c\\u2028");
  CHECK(visible("\u200d\u00a0\u2027\u202f") == "\u200d\u00a0\u2027\u202f");  // joiner, spaces: of honest text
  CHECK(visible_line("a\nb\tc") == "a\\u000ab\\u0009c");
  CHECK(visible_paragraph("a\nstate=done") == "a\n    state=done");
}

TEST_CASE("trust: bytes that are no UTF-8 are shown one by one") {
  CHECK(visible("\x9b"
                "31m") == "\\x9b31m");                       // C1 as a byte
  CHECK(visible("\xc0\x9b") == "\\xc0\\x9b");                // overlong ESC
  CHECK(visible("\xed\xa0\x80") == "\\xed\\xa0\\x80");       // surrogate
  CHECK(visible("caf\xc3") == "caf\\xc3");                   // cut
  CHECK(visible("\xe8\xaa\x9e\xe8\xaa") == "語\\xe8\\xaa");  // the second is cut
}

TEST_CASE("trust: what is printed is visible, and JSON stays the same document") {
  CHECK(printed([](std::FILE* out) { print(out, "cause: {}\n", "\x1b[2J"); }) == "cause: \\u001b[2J\n");
  Value document = Value::make_table();
  document.set("cause", "\x1b[2J\u202e \xc2\x9b and \"quotes\"\n");
  const std::string text = printed([&](std::FILE* out) { print_text(out, to_json_pretty(document)); });
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("\u202e") == std::string::npos);
  const Result<Value> read = parse_json(text, "printed");
  REQUIRE(read.ok());
  CHECK(read->get_string("cause") == document.get_string("cause"));
  CHECK(printed([](std::FILE* out) { print_bytes(out, "\x1b[A"); }) == "\x1b[A");
}

TEST_CASE("trust: what a log line quotes neither ends it nor gives orders to a terminal") {
  const testing::Scratch scratch;
  {
    Logger log("lead", "run=x\ny", LogLevel::info, scratch.file("log"));
    log.info("event=rank_ended words='\nevent=succeeded \x1b[2K'");
  }
  const std::string text = read_file(scratch.file("log")).value();
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
  CHECK(text.find("run=x\\u000ay event=rank_ended words='\\u000aevent=succeeded \\u001b[2K'\n") != std::string::npos);
}

}  // namespace longhaul
