// Mutation fuzzing, deterministic: valid files are damaged step by step, and whatever reads them has to answer with a
// value or an Error, within a processor time and a memory of its own for each input. A run begins with its seed.
//
//   LONGHAUL_FUZZ_FACTOR=100    many times as many inputs
//   LONGHAUL_FUZZ_SECONDS=600   for so long, from another seed each time
//   LONGHAUL_FUZZ_SEED=N        that seed again
#pragma once

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "base/digest/philox.h"
#include "tests/support/patience.h"

// A length that a file claims must not become memory: AddressSanitizer refuses it here, RLIMIT_AS elsewhere.
#if defined(__SANITIZE_ADDRESS__)
#define LONGHAUL_FUZZ_ASAN 1
#endif

namespace longhaul::fuzz {

inline constexpr std::uint64_t usual_seed = 20260301;
// For one input: processor time of a fast machine, and what the process may grow by.
inline constexpr std::int64_t processor_ms_max = 2'000;
#if defined(LONGHAUL_FUZZ_ASAN)  // keeps what was freed for a while
inline constexpr long growth_kib_max = 1 << 20;
#else
inline constexpr long growth_kib_max = 1 << 19;
#endif

inline std::int64_t number_of_environment(const char* name) {
  const char* const given = std::getenv(name);
  return given ? std::atoll(given) : 0;
}

inline long peak_kib() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return used.ru_maxrss;
}

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

// What came of the inputs of a run.
struct Outcome {
  int accepted = 0, refused = 0;
  double slowest_s = 0;
  void add(bool good, double seconds) {
    ++(good ? accepted : refused);
    slowest_s = std::max(slowest_s, seconds);
  }
};

// One input, within its bounds.
template <class Check>
void try_one(const std::string& input, const Check& check, Outcome& outcome) {
  const long peak = peak_kib();
  const std::clock_t begun = std::clock();
  const bool good = check(input);
  const double seconds = static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
  outcome.add(good, seconds);
  if (seconds > 1e-3 * static_cast<double>(testing::patience_ms(processor_ms_max)))
    FAIL_CHECK("an input of " << input.size() << " bytes took " << seconds << " s of processor time");
  if (peak_kib() - peak > growth_kib_max)
    FAIL_CHECK("an input of " << input.size() << " bytes took " << (peak_kib() - peak) / 1024 << " MiB");
}

// `check` reads each mutant of each of `valid`: it must return, in time. `valid` themselves come first, for which
// `check` must return true; for mutants it says whether they were accepted. Returns how many were refused: none would
// mean that the mutations do not reach the parser.
template <class Check>
int refused_of(const char* name, const std::vector<std::string>& valid, int mutants, const Check& check) {
  bound_memory();
  mutants *= static_cast<int>(std::max<std::int64_t>(1, number_of_environment("LONGHAUL_FUZZ_FACTOR")));
  const std::int64_t seconds = number_of_environment("LONGHAUL_FUZZ_SECONDS");
  std::uint64_t seed = seconds > 0 ? static_cast<std::uint64_t>(std::time(nullptr)) : usual_seed;
  if (const std::int64_t given = number_of_environment("LONGHAUL_FUZZ_SEED"); given > 0)
    seed = static_cast<std::uint64_t>(given);
  std::printf("fuzz %-14s LONGHAUL_FUZZ_SEED=%llu\n", name, static_cast<unsigned long long>(seed));
  std::fflush(stdout);  // an input may end this process
  for (const std::string& one : valid) REQUIRE(check(one));
  Outcome outcome;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (int m = 0; seconds > 0 ? std::chrono::steady_clock::now() < until : m < mutants; ++m)
    for (std::size_t v = 0; v < valid.size(); ++v) {
      PhiloxSequence draw(seed, v << 32 | static_cast<unsigned>(m));
      CAPTURE(v);
      CAPTURE(m);
      try_one(mutate(valid[v], draw), check, outcome);
    }
  std::printf("fuzz %-14s %d accepted, %d refused, slowest %.1f ms, peak %ld MiB\n", name, outcome.accepted,
              outcome.refused, outcome.slowest_s * 1e3, peak_kib() / 1024);
  return outcome.refused;
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
bool good_or_refused(const T& result) {
  if (!result.ok()) CHECK_FALSE(result.error().message().empty());
  return result.ok();
}

}  // namespace longhaul::fuzz
