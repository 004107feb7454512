#include "base/files/file_lines.h"

#include <doctest/doctest.h>

#include <vector>

#include "base/files/files.h"
#include "tests/support/scratch.h"

using namespace longhaul;

TEST_CASE("file lines: a beginning ends with a whole line, or with the file") {
  const testing::Scratch scratch;
  const std::string path = join_path(scratch.path(), "rows");
  REQUIRE(write_file_atomic(path, "one\ntwo\nthree").ok());
  const auto lines_of = [&](std::size_t bytes) {
    const std::string text = file_beginning(path, bytes);
    CHECK(text.size() == std::min<std::size_t>(bytes, 13));
    return std::string(whole_lines(text, bytes));
  };
  CHECK(lines_of(100) == "one\ntwo\nthree");
  CHECK(lines_of(10) == "one\ntwo\n");
  CHECK(lines_of(8) == "one\ntwo\n");
  CHECK(lines_of(2).empty());
  CHECK(file_beginning(path + "-is-not-there", 10).empty());
}

TEST_CASE("file lines: each whole line is seen once, also where one is longer than what is read at a time") {
  const testing::Scratch scratch;
  const std::string path = join_path(scratch.path(), "events");
  const std::string large(3 << 20, 'x');
  REQUIRE(write_file_atomic(path, "one\n\n" + large + "\ntwo\ntorn").ok());
  std::vector<std::string> seen;
  for_each_line(path, [&](std::string_view line) { seen.emplace_back(line); });
  CHECK(seen == std::vector<std::string>{"one", "", large, "two"});
  for_each_line(path + "-is-not-there", [&](std::string_view) { FAIL("a line of no file"); });
}
