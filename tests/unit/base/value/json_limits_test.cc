#include "base/value/json_limits.h"

#include <doctest/doctest.h>
#include <malloc.h>

#include <algorithm>
#include <ctime>

#include "base/value/json.h"
#include "tests/support/hostile_json.h"
#include "tests/support/patience.h"

namespace longhaul {
namespace {

// Processor time: others share these cores. The fastest of three.
double seconds_to_parse(const std::string& text) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t begun = std::clock();
    (void)parse_json(text).ok();
    best = std::min(best, static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC);
  }
  return best;
}

// What the heap has given out; 0 where nothing reports (sanitizers have heaps of their own).
std::size_t heap_in_use() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && __GLIBC_PREREQ(2, 33)
  const auto info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
#else
  return 0;
#endif
}

}  // namespace

// Eight times the text would take 64 times the time where a reader looks back: far from what a busy machine adds to 8.
TEST_CASE("trust: eight times the text takes about eight times the time, whatever of it is repeated or nested") {
  for (const HostileJson& hostile : hostile_json()) {
    CAPTURE(hostile.name);
    const double once = seconds_to_parse(hostile.text(32 << 10)), more = seconds_to_parse(hostile.text(256 << 10));
    CHECK_MESSAGE(more < 24 * once + 0.002, once << " s, eight times as much " << more << " s");
  }
  const double seconds = seconds_to_parse(hostile_json().front().text(1 << 20));
  CHECK(seconds < 1e-3 * static_cast<double>(testing::patience_ms(2'000)));
}

TEST_CASE("trust: the memory that a text takes is counted before it is taken, and is at most 50 times the text") {
  for (const HostileJson& hostile : hostile_json()) {
    CAPTURE(hostile.name);
    const std::string text = hostile.text(256 << 10);
    const JsonOutline outline = outline_of_json(text);
    CHECK(outline.bytes <= default_json_limits(text.size()).bytes_max);
    const std::size_t before = heap_in_use();
    const auto value = parse_json(text);
    const std::size_t taken = heap_in_use() - before;
    if (value.ok()) CHECK_MESSAGE(taken <= outline.bytes, taken << " bytes taken, counted " << outline.bytes);
  }
}

TEST_CASE("an outline knows how many values there are, of what stands inside of strings nothing") {
  const auto values = [](const std::string& text) { return outline_of_json(text).values; };
  CHECK(values("1") == 1);
  CHECK(values("[]") == 1);
  CHECK(values(" [ 1 , [ ] , { } ] ") == 4);
  CHECK(values(R"({"a":[1,2],"b":{"c":null}})") == 6);
  CHECK(values(R"(["[,{\"[,","\\",3])") == 4);
  CHECK(outline_of_json(R"([[1,2],{"a":3},[]])").children == std::vector<std::uint32_t>{3, 2, 1, 0});
  // Whatever is no JSON: never more than its length allows.
  for (const std::string text : {"", ",,,,", "[,,,,", "]]]]", "{,,,,", "\"[,", "[1,,,,", "[1]]]]", "\\", "\"\\"}) {
    CAPTURE(text);
    CHECK(values(text) <= text.size() + 1);
    CHECK_FALSE(parse_json(text).ok());
  }
}

TEST_CASE("trust: who reads a text says how many values of it are taken, and in how much memory") {
  const std::string text = R"([1,2,3,"four"])";
  CHECK(parse_json(text, "x", {5, 4096}).ok());
  const auto many = parse_json(text, "x", {4, 4096});
  REQUIRE_FALSE(many.ok());
  CHECK(many.error().message() == "x: JSON of 5 values; at most 4 are taken here");
  const auto large = parse_json(text, "x", {5, 100});
  REQUIRE_FALSE(large.ok());
  CHECK(large.error().message().find("of memory") != std::string::npos);
  CHECK(large.error().message().find("100 B are taken here") != std::string::npos);
}

TEST_CASE("trust: an error quotes a little of a stranger's text, not all of it") {
  for (const std::string begin : {"", "[1,", "{\"a\":"}) {
    const auto broken = parse_json(begin + '"' + std::string(200'000, 'a'), "x");
    REQUIRE_FALSE(broken.ok());
    CHECK(broken.error().message().size() < 300);
    CHECK(broken.error().message().find("aaa...") != std::string::npos);
  }
}

}  // namespace longhaul
