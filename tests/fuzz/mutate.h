// Mutation fuzzing, deterministic: valid files are damaged step by step, and whatever reads them has to answer with a
// value or an Error, soon, within bounded memory.
#pragma once

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/philox.h"

// A length that a file claims must not become memory: AddressSanitizer refuses it here, RLIMIT_AS elsewhere.
#if defined(__SANITIZE_ADDRESS__)
#define LONGHAUL_FUZZ_ASAN 1
#endif

namespace longhaul::fuzz {

inline constexpr std::uint64_t seed = 20260301;
inline constexpr double seconds_max = 5;  // for one input; a busy machine included

inline void bound_memory() {
#if !defined(LONGHAUL_FUZZ_ASAN)
  const rlimit bound{std::size_t{3} << 30, std::size_t{3} << 30};
  ::setrlimit(RLIMIT_AS, &bound);
#endif
}

// One to eight changes of the kinds that have broken parsers: bits, bytes, lengths, numbers, brackets, cuts, repeats.
inline std::string mutate(std::string text, PhiloxSequence& draw) {
  static const std::vector<std::string> pieces = {"0",
                                                  "-1",
                                                  "18446744073709551616",
                                                  "9223372036854775807",
                                                  "-9223372036854775808",
                                                  "4294967296",
                                                  "1e999",
                                                  "nan",
                                                  "inf",
                                                  "null",
                                                  "true",
                                                  "\"\"",
                                                  "{}",
                                                  "[]",
                                                  "[[[[[[[[",
                                                  "{\"a\":",
                                                  "\"",
                                                  "\\u0000",
                                                  "\\ud800",
                                                  "\xff",
                                                  "\xc3",
                                                  "\xf4\x90\x80\x80",
                                                  std::string(1, '\0'),
                                                  std::string(8, '\0'),
                                                  std::string(8, '\xff'),
                                                  std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8),
                                                  std::string("\0\0\0\0\0\0\0\x40", 8),
                                                  "\n",
                                                  ",",
                                                  ":",
                                                  "=",
                                                  "<",
                                                  "<div>",
                                                  "</p>",
                                                  "<table>",
                                                  "&#x110000;",
                                                  "<!--",
                                                  "]]>",
                                                  "${params.",
                                                  "@",
                                                  "../"};
  const std::uint64_t changes = 1 + (draw.next_below(2) == 0 ? 0 : draw.next_below(8));
  for (std::uint64_t i = 0; i < changes; ++i) {
    const std::size_t at = draw.next_below(text.size() + 1);
    const std::size_t length =
        std::min<std::size_t>(text.size() - at, draw.next_below(draw.next_below(4) == 0 ? 400 : 16));
    switch (draw.next_below(10)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << draw.next_below(8)));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(draw.next_below(256));
        break;
      case 2: text.erase(at, length); break;
      case 3: text.insert(at, text.substr(at, length)); break;
      case 4: text.insert(at, pieces[draw.next_below(pieces.size())]); break;
      case 5: {
        const std::string& piece = pieces[draw.next_below(pieces.size())];
        text.replace(at, std::min(piece.size(), text.size() - at), piece);
        break;
      }
      case 6:
        if (draw.next_below(4) == 0) text.resize(at);
        break;
      default: {  // another number in the place of one
        std::size_t from = text.find_first_of("0123456789", at);
        if (from == std::string::npos) break;
        const std::size_t to = std::min(text.find_first_not_of("0123456789", from), text.size());
        text.replace(from, to - from, pieces[draw.next_below(9)]);
      }
    }
  }
  return text;
}

// `check` reads each mutant of each of `valid`: it must return, in time. `valid` themselves come first, for which
// `check` must return true; for mutants it says whether they were accepted. Returns how many were refused: none would
// mean that the mutations do not reach the parser.
template <class Check>
int refused_of(const char* name, const std::vector<std::string>& valid, int mutants, const Check& check) {
  bound_memory();
  const char* factor = std::getenv("LONGHAUL_FUZZ_FACTOR");  // many times as many, by hand
  if (factor) mutants *= std::max(1, std::atoi(factor));
  int accepted = 0, refused = 0;
  double slowest = 0;
  for (std::size_t v = 0; v < valid.size(); ++v) {
    CAPTURE(v);
    REQUIRE(check(valid[v]));
    for (int m = 0; m < mutants; ++m) {
      PhiloxSequence draw(seed, v << 32 | static_cast<unsigned>(m));
      const std::string mutant = mutate(valid[v], draw);
      CAPTURE(m);
      const auto start = std::chrono::steady_clock::now();
      const bool good = check(mutant);
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      ++(good ? accepted : refused);
      slowest = std::max(slowest, seconds);
      if (seconds > seconds_max) FAIL_CHECK("mutant took " << seconds << " s");
    }
  }
  std::printf("fuzz %-14s seed %llu: %d accepted, %d refused, slowest %.1f ms\n", name,
              static_cast<unsigned long long>(seed), accepted, refused, slowest * 1e3);
  return refused;
}

template <class Check>
void run(const char* name, const std::vector<std::string>& valid, int mutants, const Check& check) {
  CHECK(refused_of(name, valid, mutants, check) > 0);
}

// For readers that take any bytes.
template <class Check>
void run_all_good(const char* name, const std::vector<std::string>& valid, int mutants, const Check& check) {
  CHECK(refused_of(name, valid, mutants, check) == 0);
}

// An error is worth its name when it says something.
template <class T>
bool good_or_told(const T& result) {
  if (!result.ok()) CHECK_FALSE(result.error().message().empty());
  return result.ok();
}

}  // namespace longhaul::fuzz
